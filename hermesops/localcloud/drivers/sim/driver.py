"""Runs simulated machines: a driver whose machines are records, as many as the memory holds. Needs no root.

What it answers is committed first, so a killed server loses nothing; machines go on living while none runs.
"""

import socket
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import TypeVar

from hermesops.errors import RefusedError
from hermesops.localcloud.drivers.interface import MachinePlan, MachinePower, MachineSize, SavedImage
from hermesops.localcloud.drivers.sim.agent.hostility import AgentAnswers, node_port
from hermesops.localcloud.drivers.sim.daemon.http_peer import HangupError
from hermesops.localcloud.drivers.sim.daemon.server import LOOPBACK, Daemon
from hermesops.localcloud.drivers.sim.disk import Disk, normal
from hermesops.localcloud.drivers.sim.guest import Guest
from hermesops.localcloud.drivers.sim.store import FILE, Entry, Record, Store
from hermesops.localcloud.server.process import hold
from hermesops.model.ids import ImageId, MachineId

PLACES = 100_000
"""How many machines a simulated world takes."""

_BOOT_S = 0.05
"""From an order, a start or a reboot until a machine's daemon answers."""

_PRIVATE_FILE = 0o100600
_LOCK = "machines.lock"

T = TypeVar("T")


@dataclass(frozen=True)
class SimRoom:
    """What is free for simulated machines."""

    machines: int

    def __str__(self) -> str:
        return f"{self.machines} of {PLACES} places free, all simulated"


class SimDriver:
    """A world of simulated machines; implements ``HostDriver``.

    Args:
        folder: The world's folder.
    """

    gateway = LOOPBACK
    subnet = ""
    unlimited = ("memory", "cpu", "disk")

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: _Opened | None = None
        self._closing = ExitStack()

    # The world

    async def open(self) -> None:
        """Take the world over.

        Raises:
            RefusedError: Another process drives it.
        """
        if self._open:
            return
        with ExitStack() as stack:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            stack.enter_context(hold(self._folder / _LOCK))
            store = Store(self._folder / FILE)
            stack.callback(store.close)
            daemon = Daemon(self)
            await daemon.open()
            # Bound and never listening: what connects to a machine that is off is refused, and by nobody else.
            silence = stack.enter_context(socket.socket())
            silence.bind((str(LOOPBACK), 0))
            tokens = {record.token: record.id for record in store.machines.values()}
            self._open = _Opened(store, daemon, tokens, int(silence.getsockname()[1]))
            self._closing = stack.pop_all()

    async def close(self, *, purge: bool) -> None:
        """Leave the machines alone, or with ``purge`` remove every trace of this world; it need not be open."""
        if self._open:
            await self._open.daemon.close()
            self._open = None
        self._closing.close()
        if purge:
            for end in ("", "-wal", "-shm"):
                (self._folder / f"{FILE}{end}").unlink(missing_ok=True)
            (self._folder / _LOCK).unlink(missing_ok=True)

    @property
    def _world(self) -> "_Opened":
        if self._open is None:
            raise RefusedError("the local world is not open", hint="hermesops local up")
        return self._open

    def _record(self, machine_id: str) -> Record:
        record = self._world.store.machine(machine_id)
        if record is None:
            raise RefusedError(f"no machine {machine_id}")
        return record

    # Machines

    async def create(self, plan: MachinePlan) -> None:
        """Make a machine and boot it; one of that id that exists already is left as it is.

        Raises:
            RefusedError: There is no room, its number is taken, or its image is not here.
        """
        world = self._world
        if world.store.machine(plan.id):
            return
        if len(world.store.machines) >= PLACES:
            raise RefusedError(f"no room for another machine: {await self.room()}")
        if plan.number in world.numbers:
            raise RefusedError(f"machine {world.numbers[plan.number]} has number {plan.number} already")
        if plan.image_id and world.store.image_machine(plan.image_id) is None:
            raise RefusedError(f"no image {plan.image_id}")
        record = Record(
            id=plan.id,
            number=plan.number,
            hostname=plan.hostname,
            token=plan.daemon_token,
            image_id=plan.image_id,
            vcpu=plan.vcpu,
            memory_mib=plan.memory_mib,
            disk_gib=plan.disk_gib,
        )
        with world.store.change():
            if plan.image_id:
                world.store.copy(plan.image_id, plan.id)
            disk = Disk(world.store, plan.id)
            for path, content in plan.files.items():
                disk.put(normal(path), Entry(_PRIVATE_FILE, 0, 0, content))
            world.store.put(record)
            self._boot(record)
        world.tokens[plan.daemon_token] = plan.id
        world.numbers[plan.number] = plan.id

    def _boot(self, record: Record) -> None:
        store = self._world.store
        with store.change():
            record = replace(record, is_on=True, boots=record.boots + 1, booted_at=time.time())
            store.put(record)
            Guest(store, record).boot()

    def _halt(self, record: Record) -> None:
        self._world.store.put(replace(record, is_on=False))
        self._world.daemon.cut(record.id)

    async def start(self, machine_id: MachineId) -> None:
        """Boot a stopped machine; a running one is left alone."""
        record = self._record(machine_id)
        if not record.is_on:
            self._boot(record)

    async def stop(self, machine_id: MachineId) -> None:
        """Shut a machine down."""
        record = self._record(machine_id)
        if record.is_on:
            self._halt(record)

    async def reboot(self, machine_id: MachineId) -> None:
        """Reboot hard; a stopped machine is booted."""
        self._boot(self._record(machine_id))
        self._world.daemon.cut(machine_id)

    async def delete(self, machine_id: MachineId) -> None:
        """Remove a machine and everything of it. Absent is success."""
        world = self._world
        record = world.store.machine(machine_id)
        if record is None:
            return
        world.store.remove(machine_id)
        world.tokens.pop(record.token, None)
        world.numbers.pop(record.number, None)
        world.daemon.cut(machine_id)

    async def resize(self, machine_id: MachineId, size: MachineSize) -> None:
        """Give a machine another size; one that is on is rebooted. The disk never shrinks."""
        record = self._record(machine_id)
        disk_gib = max(record.disk_gib, size.disk_gib)
        resized = replace(record, vcpu=size.vcpu, memory_mib=size.memory_mib, disk_gib=disk_gib)
        self._world.store.put(resized)
        if resized.is_on:
            await self.reboot(machine_id)

    async def power(self, machine_id: MachineId) -> MachinePower:
        """Look at one machine."""
        record = self._world.store.machine(machine_id)
        if record is None:
            return MachinePower.ABSENT
        if not record.is_on:
            return MachinePower.STOPPED
        return MachinePower.RUNNING if self._is_up(record) else MachinePower.BOOTING

    def _is_up(self, record: Record) -> bool:
        return record.is_on and time.time() >= record.booted_at + _BOOT_S

    async def powered(self) -> frozenset[MachineId]:
        """Those that are not off."""
        return frozenset(MachineId(key) for key, record in self._world.store.machines.items() if record.is_on)

    def daemon_address(self, machine_id: MachineId) -> tuple[IPv4Address, int]:
        """The one listener of all machines; where nothing listens while this one is off or boots.

        Raises:
            RefusedError: There is no such machine.
        """
        world = self._world
        return LOOPBACK, world.daemon.port if self._is_up(self._record(machine_id)) else world.silent_port

    # Images

    async def save_image(self, machine_id: MachineId, image_id: ImageId) -> SavedImage:
        """Copy a machine's files into an image; one of that id that exists already is returned as it is."""
        store = self._world.store
        record = self._record(machine_id)
        if store.image_machine(image_id) is None:
            with store.change():
                store.copy(record.id, image_id)
                Disk(store, image_id).forget_memory()
                store.put_image(image_id, record.id)
        return SavedImage(image_id, store.bytes_of(image_id))

    async def restore(self, machine_id: MachineId, image_id: ImageId) -> None:
        """Put a machine's files back to an image of that same machine; one that is on is rebooted.

        Raises:
            RefusedError: The image is another machine's, or there is none.
        """
        store, record = self._world.store, self._record(machine_id)
        if store.image_machine(image_id) != record.id:
            raise RefusedError(f"image {image_id} is not one of machine {machine_id}")
        store.copy(image_id, record.id)
        if record.is_on:
            await self.reboot(machine_id)

    async def delete_image(self, image_id: ImageId) -> None:
        """Remove an image that no machine uses; absent is success.

        Raises:
            RefusedError: A machine stands on it.
        """
        store = self._world.store
        users = [record.id for record in store.machines.values() if record.image_id == image_id]
        if users:
            raise RefusedError(f"image {image_id} is used by machine {users[0]}")
        store.remove_image(image_id)

    # Room

    async def room(self) -> SimRoom:
        """How many more machines it takes."""
        return SimRoom(max(0, PLACES - len(self._world.store.machines)))

    # What the daemon asks

    def running(self, token: str) -> str | None:
        """The machine whose daemon takes this bearer.

        Raises:
            HangupError: It went down since somebody asked where it is: nobody answers for it.
        """
        machine_id = self._world.tokens.get(token)
        if machine_id and not self._is_up(self._record(machine_id)):
            raise HangupError
        return machine_id

    async def hear(self, machine_id: str) -> None:
        """Ask once what an agent answers hermes-node that was taken over."""
        if port := node_port(Disk(self._world.store, machine_id)):
            await self._world.agent_answers.hear(port)

    def guest(self, machine_id: str) -> Guest:
        """A machine, for one request."""
        world = self._world
        guest = Guest(world.store, self._record(machine_id), world.agent_answers)
        if guest.is_overdue:
            self.work(guest, guest.settle)
            guest = Guest(world.store, self._record(machine_id), world.agent_answers)
        return guest

    def work(self, guest: Guest, do: Callable[[], T]) -> T:
        """Do something on a machine in one step, and what it wants of its power after it."""
        with self._world.store.change():
            result = do()
            if guest.power == "reboot":
                self._boot(self._record(guest.record.id))
        if guest.power == "poweroff":
            self._halt(self._record(guest.record.id))
        return result


class _Opened:
    """What there is of an open world."""

    def __init__(self, store: Store, daemon: Daemon, tokens: Mapping[str, str], silent_port: int) -> None:
        self.store = store
        self.daemon = daemon
        self.tokens = dict(tokens)
        self.numbers = {record.number: record.id for record in store.machines.values()}
        self.silent_port = silent_port
        self.agent_answers = AgentAnswers()
