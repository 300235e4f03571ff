"""A world while it is open: its records, control groups and network, and the changes of its machines."""

import socket
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path
from uuid import uuid4

from hermesops.errors import BrokenInvariantError, RefusedError, UnavailableError
from hermesops.localcloud.drivers.interface import DAEMON_PORT, MachinePlan, MachinePower, MachineSize
from hermesops.localcloud.drivers.nspawn.computer import resources
from hermesops.localcloud.drivers.nspawn.computer.cgroup import WorldGroups
from hermesops.localcloud.drivers.nspawn.computer.network import Network
from hermesops.localcloud.drivers.nspawn.disks import guest_files
from hermesops.localcloud.drivers.nspawn.disks.disk import Disk, copy_volume, data_beside, share, unshare
from hermesops.localcloud.drivers.nspawn.disks.guest_files import remove_tree
from hermesops.localcloud.drivers.nspawn.disks.vendor_layer import ensure_vendor_layer
from hermesops.localcloud.drivers.nspawn.machine import Machine, forget_nspawn, known_to_nspawn
from hermesops.localcloud.drivers.nspawn.store import MachineRecord, Store
from hermesops.localcloud.drivers.nspawn.world_lock import identify
from hermesops.model.ids import MachineId

_ANSWER_S = 0.5


class OpenWorld:
    """An open world: its records and locks, and the changes of its machines, each by one thread at a time.

    Nothing is remembered that can be observed: a machine runs when its control group has a process.

    Opening it makes its network and groups, finds running machines again and clears what a crash left half-made.

    Args:
        store: Its files; the caller owns the world.
        base: Gives the folder of the base's root, built when it is not there.
        forgiving: Ignore damaged records; for a world that is about to be removed.

    Attributes:
        locks: One for each machine, held while that machine is changed.
        layers_lock: Held while it is decided which image layers are in use.

    Raises:
        BrokenInvariantError: A record is damaged.
    """

    def __init__(self, store: Store, ports: Iterable[int], base: Callable[[], Path], *, forgiving: bool) -> None:
        identity = identify(store.state, forgiving=forgiving)
        self.store = store
        self.network = Network(identity.name, identity.subnet, ports)
        self.records: dict[MachineId, MachineRecord] = {}
        self.locks: defaultdict[MachineId, threading.RLock] = defaultdict(threading.RLock)
        self.layers_lock = threading.Lock()
        self._name = identity.name
        self._groups = WorldGroups(identity.name)
        self._base = base
        self._admission = threading.Lock()
        share(store.machines_folder)
        self._groups.prepare()
        self.network.prepare()
        self._recover(forgiving=forgiving)

    def record(self, machine_id: MachineId) -> MachineRecord:
        """A machine's record.

        Raises:
            RefusedError: There is no such machine.
        """
        record = self.records.get(machine_id)
        if record is None:
            raise RefusedError(f"there is no machine {machine_id} in {self.store.state}")
        return record

    def machine(self, record: MachineRecord) -> Machine:
        """The machine of a record, running or not."""
        name = f"{self._name}-{record.number}"
        return Machine(
            record,
            name=name,
            home=self.store.home(record.id),
            layers_root=self.store.layers,
            group=self._groups.machine(name),
            network=self.network,
        )

    def clear(self, machine_id: MachineId, record: MachineRecord | None) -> None:
        """Remove a machine that is unfinished or has a damaged record; absent is success."""
        if record is not None:
            self.machine(record).take_down()
        Disk(self.store.home(machine_id)).unmount()
        self.store.forget_machine(machine_id)

    def free_resources(self) -> resources.FreeResources:
        """Free resources for machines on this computer."""
        groups = (self.machine(record).group for record in list(self.records.values()))
        return resources.free_resources(self.store.state, [pids for pids in (group.pids() for group in groups) if pids])

    def remove(self) -> None:
        """Remove the machines and every other trace of the world that is not a cache of bases.

        Raises:
            UnavailableError: A machine could not be removed, but all others were; everything else stays.
        """
        problems = [problem for machine_id in list(self.records) if (problem := self._removal_problem(machine_id))]
        if problems:
            raise problems[0]
        self._remove_leftovers()
        self.network.remove()
        self._groups.remove()
        unshare(self.store.machines_folder)
        for name in ("machines", "images", "layers", "driver.json", self.store.extended_base.name):
            remove_tree(self.store.state / name)

    def _removal_problem(self, machine_id: MachineId) -> UnavailableError | None:
        try:
            self.delete(machine_id)
        except UnavailableError as error:
            return error
        return None

    # Machines

    def address(self, machine_id: MachineId) -> IPv4Address:
        """A machine's own address.

        Raises:
            RefusedError: There is no such machine.
        """
        return self.network.address(self.record(machine_id).number)

    def create(self, plan: MachinePlan) -> None:
        with self.locks[plan.id]:
            if plan.id in self.records:
                return
            self.clear(plan.id, self.store.machine(plan.id))
            base = "" if plan.image_id else str(self._base())  # may be built first, so nobody's lock is held
            with self.layers_lock:  # from the record on, the image's layers are in use
                record = self._order(plan, base)
                self.store.save_machine(record)
            try:
                self.records[plan.id] = self._make(plan, record)
            except BaseException:
                self.clear(plan.id, record)
                raise

    def _make(self, plan: MachinePlan, record: MachineRecord) -> MachineRecord:
        machine = self.machine(record)
        machine.take_down()
        machine.disk.make(plan.disk_gib)
        machine.mount()
        if record.layers:
            copy_volume(data_beside(self.store.layers / record.layers[-1]), machine.disk.volume.file)
        guest_files.personalise(
            machine.disk.root,
            plan,
            machine_id=record.machine_id,
            address=self.network.address(plan.number),
            broker=self.network.gateway,
        )
        finished = replace(record, made=True)
        self._boot(self.machine(finished).set_off)
        self.store.save_machine(finished)
        return finished

    def _order(self, plan: MachinePlan, base: str) -> MachineRecord:
        self.network.address(plan.number)
        taken = next((other for other in self.records.values() if other.number == plan.number), None)
        if taken:
            raise RefusedError(f"machine {taken.id} has number {plan.number} already")
        layers: tuple[str, ...] = ()
        if plan.image_id:
            image = self.store.image(plan.image_id)
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
            vendor=str(ensure_vendor_layer(self.store.layers)),
            layers=layers,
        )

    def _boot(self, begin: Callable[[], None]) -> None:
        with self._admission:
            free = self.free_resources()
            if free.machines < 1:
                raise RefusedError(
                    f"no room for another machine on this computer: {free}",
                    hint="stop or terminate a machine, or raise fs.inotify.max_user_instances if that limit is reached",
                )
            begin()

    def start(self, machine_id: MachineId) -> None:
        with self.locks[machine_id]:
            machine = self.machine(self.record(machine_id))
            if not machine.group.pids():
                self._boot(machine.boot)

    def stop(self, machine_id: MachineId) -> None:
        with self.locks[machine_id]:
            self.machine(self.record(machine_id)).stop()

    def reboot(self, machine_id: MachineId) -> None:
        with self.locks[machine_id]:
            self.machine(self.record(machine_id)).reboot()

    def resize(self, machine_id: MachineId, size: MachineSize) -> None:
        """See ``Driver.resize``; safe to repeat after it was cut short, which leaves the machine off."""
        with self.locks[machine_id]:
            machine = self.machine(self.record(machine_id))
            was_on = bool(machine.group.pids())
            machine.stop()
            disk_gib = max(machine.record.disk_gib, size.disk_gib)
            machine.disk.grow(disk_gib)
            record = replace(machine.record, vcpu=size.vcpu, memory_mib=size.memory_mib, disk_gib=disk_gib)
            self.store.save_machine(record)
            self.records[machine_id] = record
            if was_on:
                self._boot(self.machine(record).boot)

    def delete(self, machine_id: MachineId) -> None:
        with self.locks[machine_id]:
            record = self.records.get(machine_id) or self.store.machine(machine_id)
            if record is not None:
                self.machine(record).take_down()
            self.store.forget_machine(machine_id)
            self.records.pop(machine_id, None)

    def power(self, machine_id: MachineId) -> MachinePower:
        record = self.records.get(machine_id)
        if record is None:
            return MachinePower.ABSENT
        if not self.machine(record).group.pids():
            return MachinePower.STOPPED
        try:
            with socket.create_connection((str(self.address(machine_id)), DAEMON_PORT), timeout=_ANSWER_S):
                return MachinePower.RUNNING
        except OSError:
            return MachinePower.BOOTING

    def powered(self) -> frozenset[MachineId]:
        """See ``Driver.powered``: those that have a process; one between two boots has its keeper."""
        records = list(self.records.values())
        return frozenset(record.id for record in records if self.machine(record).group.pids())

    # Recovery

    def _recover(self, *, forgiving: bool) -> None:
        self.store.sweep_machines()
        damaged = []
        for machine_id in self.store.machine_ids():
            try:
                record = self.store.machine(machine_id)
            except BrokenInvariantError:
                if not forgiving:
                    raise
                damaged.append(machine_id)
                continue
            self._find_again(machine_id, record)
        self._remove_leftovers()
        for machine_id in damaged:
            self.clear(machine_id, None)
        self.store.sweep_layers(partial=True)

    def _find_again(self, machine_id: MachineId, record: MachineRecord | None) -> None:
        if record is None or not record.made:
            self.clear(machine_id, record)
            return
        self.records[machine_id] = record
        machine = self.machine(record)
        if machine.group.pids():  # a keeper that has not got so far as to have a first process counts too
            self.network.admit(machine.name, record.number)
        else:
            machine.take_down()

    def _remove_leftovers(self) -> None:
        """Remove groups, links and namespaces of ours that belong to no machine any more."""
        known = {f"{self._name}-{record.number}" for record in self.records.values()}
        for name in self._groups.names() - known:
            group = self._groups.machine(name)
            group.kill()
            group.remove()
        for link in self.network.wired() - known:
            self.network.unwire(link)
        for name in known_to_nspawn(f"{self._name}-") - known:
            forget_nspawn(name)
