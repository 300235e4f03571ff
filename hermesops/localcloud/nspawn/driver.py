"""Drives real machines on this computer: what the API server asks for, done by keeper, disk, network and groups.

Nothing is remembered that can be looked at: a machine runs when its control group holds a first process.
"""

import asyncio
import functools
import os
import shutil
import socket
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import ParamSpec, TypeVar
from uuid import uuid4

from hermesops.errors import BrokenInvariantError, RefusedError, UnavailableError
from hermesops.localcloud.driver import DAEMON_PORT, Driver, MachinePlan, MachinePower, SavedImage
from hermesops.localcloud.nspawn import contents, host
from hermesops.localcloud.nspawn.base import ensure_base, read_definition
from hermesops.localcloud.nspawn.cgroup import World
from hermesops.localcloud.nspawn.command import run
from hermesops.localcloud.nspawn.disk import Disk, share, unshare
from hermesops.localcloud.nspawn.guest import remove_tree
from hermesops.localcloud.nspawn.machine import Machine, forget_nspawn, known_to_nspawn
from hermesops.localcloud.nspawn.network import Network
from hermesops.localcloud.nspawn.store import ImageRecord, MachineRecord, Store
from hermesops.localcloud.nspawn.vendor import ensure_vendor_layer
from hermesops.localcloud.nspawn.world import Ownership, identify
from hermesops.model.ids import ImageId, MachineId

_ANSWER_S = 0.5
_MAX_LAYERS = 100
_ALL_MAY_WRITE = 0o666
_THREADS = 32

P = ParamSpec("P")
T = TypeVar("T")
_UNMOUNTABLE = set(",:\\\n")


def _silent(_: str) -> None:
    """Say nothing."""


class NspawnDriver(Driver):
    """A world of machines on this computer. Needs root.

    Args:
        state: The world's folder; everything of it is below, or carries its tag.
        definition: Folder that describes the base, ``images/base-debian12``.
        bases: Where built bases are kept; ``<state>/bases`` unless given. Worlds may share it.
        service_ports: TCP ports of ``gateway`` that machines may reach.
        tell: Called with lines of narration for work that takes long.
    """

    def __init__(
        self,
        state: Path,
        *,
        definition: Path,
        bases: Path | None = None,
        service_ports: Iterable[int] = (18080,),
        tell: Callable[[str], None] = _silent,
    ) -> None:
        self._state = state.resolve()
        self._definition = definition
        self._bases = (bases or self._state / "bases").resolve()
        self._ports = tuple(service_ports)
        self._tell = tell
        self._store = Store(self._state)
        self._ownership = Ownership(self._state)
        self._locks: defaultdict[MachineId, threading.RLock] = defaultdict(threading.RLock)
        self._images_lock = threading.Lock()
        self._admission = threading.Lock()
        self._records: dict[MachineId, MachineRecord] = {}
        self._network: Network | None = None
        self._groups = World("")
        self._name = ""
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="machines")

    async def _aside(self, work: Callable[P, T], *arguments: P.args, **options: P.kwargs) -> T:
        """Do blocking work on a thread of the driver's own: a slow stop must not hold up somebody else's look.

        Cancelling the caller does not stop the work half-way; ``close`` waits for it.
        """
        call = functools.partial(work, *arguments, **options)
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    # What callers need to know of the network once the world is open

    @property
    def gateway(self) -> IPv4Address:
        """The address of this computer that machines reach, on the service ports only; bind services to it."""
        return self._net.gateway

    @property
    def subnet(self) -> str:
        """The world's addresses, in CIDR notation."""
        return str(self._net.subnet)

    @property
    def _net(self) -> Network:
        if self._network is None:
            raise RefusedError("the local world is not open", hint="hermesops local up")
        return self._network

    def daemon_address(self, machine_id: MachineId) -> tuple[IPv4Address, int]:
        """Where the broker reaches the machine's daemon.

        Raises:
            RefusedError: There is no such machine.
        """
        return self._net.address(self._record(machine_id).number), DAEMON_PORT

    def _record(self, machine_id: MachineId) -> MachineRecord:
        record = self._records.get(machine_id)
        if record is None:
            raise RefusedError(f"there is no machine {machine_id} in {self._state}")
        return record

    def _machine(self, record: MachineRecord) -> Machine:
        name = f"{self._name}-{record.number}"
        return Machine(
            record,
            name=name,
            home=self._store.home(record.id),
            layers_root=self._store.layers,
            group=self._groups.machine(name),
            network=self._net,
        )

    # The world

    async def open(self) -> None:
        """Take the world over: build the base, find running machines again, clear what a crash left half-made."""
        await self._aside(self._open)

    def _open(self) -> None:
        self._take_over()
        ensure_base(read_definition(self._definition), self._bases, self._tell)

    def _take_over(self, *, forgiving: bool = False) -> None:
        if os.geteuid() != 0:
            raise RefusedError("local machines need root", hint="run as root, or use a remote environment")
        if Path("/dev/null").stat().st_mode & _ALL_MAY_WRITE != _ALL_MAY_WRITE:  # machines copy the node's mode
            raise RefusedError("/dev/null of this computer is not writable by all", hint="chmod 666 /dev/null")
        if _UNMOUNTABLE & set(f"{self._state}{self._bases}"):
            raise RefusedError(f"a local world cannot live in {self._state}: no comma, colon or backslash in its path")
        self._store.prepare()
        self._ownership.take()
        identity = identify(self._state, forgiving=forgiving)
        self._name = identity.name
        self._network = Network(identity.name, identity.subnet, self._ports)
        share(self._store.machines_folder)
        self._groups = World(identity.name)
        self._groups.prepare()
        self._network.prepare()
        self._recover(forgiving=forgiving)

    def _recover(self, *, forgiving: bool) -> None:
        self._records = {}
        self._store.sweep_machines()
        damaged = []
        for machine_id in self._store.machine_ids():
            try:
                record = self._store.machine(machine_id)
            except BrokenInvariantError:
                if not forgiving:
                    raise
                damaged.append(machine_id)
                continue
            if record is None or not record.made:
                self._clear_half_made(machine_id, record)
                continue
            self._records[machine_id] = record
            machine = self._machine(record)
            if machine.group.pids():  # a keeper that has not got so far as to have a first process counts too
                self._net.admit(machine.name, record.number)
            else:
                machine.take_down()
        self._clear_strangers()
        for machine_id in damaged:
            self._clear_half_made(machine_id, None)
        self._store.sweep_layers(partial=True)

    def _clear_half_made(self, machine_id: MachineId, record: MachineRecord | None) -> None:
        if record is not None:
            self._machine(record).take_down()
        Disk(self._store.home(machine_id)).unmount()
        self._store.forget_machine(machine_id)

    def _clear_strangers(self) -> None:
        """Remove groups, links and namespaces of ours that belong to no machine any more."""
        known = {f"{self._name}-{record.number}" for record in self._records.values()}
        for name in self._groups.names() - known:
            group = self._groups.machine(name)
            group.kill()
            group.remove()
        for link in self._net.wired() - known:
            self._net.unwire(link)
        for name in known_to_nspawn(f"{self._name}-") - known:
            forget_nspawn(name)

    async def close(self, *, purge: bool) -> None:
        """Leave the machines alone, or with ``purge`` stop and remove every trace of this world.

        To purge, the world need not be open; it is then taken over first.
        A cache of bases that lies elsewhere is kept: other worlds stand on it.
        """
        await asyncio.to_thread(self._close, purge=purge)

    def _close(self, *, purge: bool) -> None:
        self._threads.shutdown(wait=True)  # what is under way ends first; nobody else may own the world meanwhile
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="machines")
        try:
            if purge:
                self._purge()
        finally:
            self._ownership.give_up()

    def _purge(self) -> None:
        if self._network is None:  # never opened: this is how a world whose server is dead is removed
            self._take_over(forgiving=True)
        for machine_id in list(self._records):
            self._delete(machine_id)
        self._clear_strangers()
        self._net.remove()
        self._groups.remove()
        unshare(self._store.machines_folder)
        for name in ("machines", "images", "layers"):
            remove_tree(self._state / name)
        if self._bases == self._state / "bases":
            remove_tree(self._bases)
        remove_tree(self._state / "driver.json")
        self._network = None

    # Machines

    async def create(self, plan: MachinePlan) -> None:
        """Make the disk and network of a machine and boot it; returns once it is on its way.

        A machine of that id that exists already is left as it is.

        Raises:
            RefusedError: It would not boot here (the figures are in the message), or its image is not here.
        """
        await self._aside(self._create, plan)

    def _create(self, plan: MachinePlan) -> None:
        with self._locks[plan.id]:
            if plan.id in self._records:
                return
            self._clear_half_made(plan.id, self._store.machine(plan.id))
            with self._images_lock:  # from the record on, the image's layers are in use
                record = self._order(plan)
                self._store.save_machine(record)
            machine = self._machine(record)
            try:
                machine.take_down()
                machine.disk.make(plan.disk_gib)
                machine.mount()
                contents.personalise(
                    machine.disk.root,
                    plan,
                    machine_id=record.machine_id,
                    address=self._net.address(plan.number),
                    broker=self._net.gateway,
                )
                made = replace(record, made=True)
                self._boot(self._machine(made).set_off)
                self._store.save_machine(made)
            except BaseException:
                self._clear_half_made(plan.id, record)
                raise
            self._records[plan.id] = made

    def _order(self, plan: MachinePlan) -> MachineRecord:
        self._net.address(plan.number)
        taken = next((other for other in self._records.values() if other.number == plan.number), None)
        if taken:
            raise RefusedError(f"machine {taken.id} has number {plan.number} already")
        if plan.image_id is None:
            base = str(ensure_base(read_definition(self._definition), self._bases, self._tell))
            layers: tuple[str, ...] = ()
        else:
            image = self._store.image(plan.image_id)
            base, layers = image.base, image.layers
        return MachineRecord(
            id=plan.id,
            number=plan.number,
            machine_id=uuid4().hex,
            hostname=plan.hostname,
            vcpu=plan.vcpu,
            memory_mib=plan.memory_mib,
            disk_gib=plan.disk_gib,
            image_id=plan.image_id,
            base=base,
            vendor=str(ensure_vendor_layer(self._store.layers)),
            layers=layers,
        )

    def _boot(self, begin: Callable[[], None]) -> None:
        with self._admission:
            room = self._room()
            if room.machines < 1:
                raise RefusedError(
                    f"no room for another machine on this computer: {room}",
                    hint="stop or terminate a machine, or raise fs.inotify.max_user_instances if that is what lacks",
                )
            begin()

    async def start(self, machine_id: MachineId) -> None:
        """Boot a stopped machine again; a running one is left alone."""
        await self._aside(self._start, machine_id)

    def _start(self, machine_id: MachineId) -> None:
        with self._locks[machine_id]:
            machine = self._machine(self._record(machine_id))
            if not machine.group.pids():
                self._boot(machine.boot)

    async def stop(self, machine_id: MachineId) -> None:
        """Shut a machine down cleanly, by force after ten seconds."""
        await self._aside(self._stop, machine_id)

    def _stop(self, machine_id: MachineId) -> None:
        with self._locks[machine_id]:
            self._machine(self._record(machine_id)).stop()

    async def reboot(self, machine_id: MachineId) -> None:
        """Reboot hard, as the vendor does; a stopped machine is booted."""
        await self._aside(self._reboot, machine_id)

    def _reboot(self, machine_id: MachineId) -> None:
        with self._locks[machine_id]:
            self._machine(self._record(machine_id)).reboot()

    async def delete(self, machine_id: MachineId) -> None:
        """Remove a machine and everything of it. Absent is success."""
        await self._aside(self._delete, machine_id)

    def _delete(self, machine_id: MachineId) -> None:
        with self._locks[machine_id]:
            record = self._records.get(machine_id) or self._store.machine(machine_id)
            if record is not None:
                self._machine(record).take_down()
            self._store.forget_machine(machine_id)
            self._records.pop(machine_id, None)

    async def power(self, machine_id: MachineId) -> MachinePower:
        """Look at one machine; ``RUNNING`` once its daemon accepts connections."""
        return await self._aside(self._power, machine_id)

    def _power(self, machine_id: MachineId) -> MachinePower:
        record = self._records.get(machine_id)
        if record is None:
            return MachinePower.ABSENT
        if not self._machine(record).group.pids():
            return MachinePower.STOPPED
        try:
            with socket.create_connection((str(self._net.address(record.number)), DAEMON_PORT), timeout=_ANSWER_S):
                return MachinePower.RUNNING
        except OSError:
            return MachinePower.BOOTING

    async def powered(self) -> frozenset[MachineId]:
        """Look at all machines at once: those that have a process. One between two boots has its keeper."""
        return await self._aside(self._powered)

    def _powered(self) -> frozenset[MachineId]:
        return frozenset(record.id for record in list(self._records.values()) if self._machine(record).group.pids())

    # Images

    async def save_image(self, machine_id: MachineId, image_id: ImageId) -> SavedImage:
        """Copy a machine's disk into the image store, as of one instant; a running machine is frozen meanwhile.

        An image of that id that exists already is returned as it is.

        Raises:
            UnavailableError: The copy failed, for instance for want of space; nothing is left of it.
        """
        return await self._aside(self._save_image, machine_id, image_id)

    def _save_image(self, machine_id: MachineId, image_id: ImageId) -> SavedImage:
        known = next((image for image in self._store.images() if image.id == image_id), None)
        if known:
            return SavedImage(known.id, known.bytes_used)
        with self._locks[machine_id]:
            record = self._record(machine_id)
            if len(record.layers) >= _MAX_LAYERS:
                raise RefusedError(f"machine {machine_id} stands on {_MAX_LAYERS} layers; build a fresh image")
            layer = self._store.layers / str(image_id)
            copying = self._store.layers / f".{image_id}.copying"
            remove_tree(copying)
            try:
                self._copy_disk(self._machine(record), copying)
            except BaseException:
                remove_tree(copying)
                raise
            image = ImageRecord(image_id, record.base, (*record.layers, layer.name), _bytes_used(copying))
            with self._images_lock:
                remove_tree(layer)
                copying.rename(layer)
                self._store.save_image(image)
        return SavedImage(image.id, image.bytes_used)

    def _copy_disk(self, machine: Machine, target: Path) -> None:
        running = bool(machine.group.pids())
        try:
            if running:
                with machine.group.frozen():
                    run(["cp", "-a", "--sparse=auto", str(machine.disk.upper), str(target)])
            else:
                machine.mount()
                run(["cp", "-a", "--sparse=auto", str(machine.disk.upper), str(target)])
        except UnavailableError as error:
            free = shutil.disk_usage(self._state).free // 2**20
            raise UnavailableError(
                f"the disk of machine {machine.record.id} could not be copied ({free} MiB free): {error.message}"
            ) from error
        finally:
            if not running:
                machine.disk.unmount()
        contents.forget_secrets(target)
        run(["sync", "-f", str(target)])

    async def delete_image(self, image_id: ImageId) -> None:
        """Remove an image that no machine uses; absent is success.

        Raises:
            RefusedError: A machine stands on it.
        """
        await self._aside(self._delete_image, image_id)

    def _delete_image(self, image_id: ImageId) -> None:
        with self._images_lock:
            records = self._store.machines().values()
            users = [record.id for record in records if record and str(image_id) in record.layers]
            if users:
                raise RefusedError(f"image {image_id} is used by machine {users[0]}", hint="delete the machine first")
            self._store.forget_image(image_id)
            self._store.sweep_layers(partial=False)

    # Room

    async def capacity(self) -> int:
        """How many more machines would boot on this computer now."""
        return (await self._aside(self._room)).machines

    async def room(self) -> host.Room:
        """The figures behind ``capacity``, for ``doctor``."""
        return await self._aside(self._room)

    def _room(self) -> host.Room:
        groups = (self._machine(record).group for record in list(self._records.values()))
        return host.look(self._state, [pids for pids in (group.pids() for group in groups) if pids])


def _bytes_used(folder: Path) -> int:
    return int(run(["du", "-s", "-B1", str(folder)]).split()[0])
