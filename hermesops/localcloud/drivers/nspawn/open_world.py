"""What the owner of a world holds while it is open: records, control groups, network, locks of its threads."""

import threading
from collections import defaultdict
from collections.abc import Iterable
from typing import Self

from hermesops.errors import BrokenInvariantError, RefusedError
from hermesops.localcloud.drivers.nspawn.computer import resources
from hermesops.localcloud.drivers.nspawn.computer.cgroup import World
from hermesops.localcloud.drivers.nspawn.computer.network import Network
from hermesops.localcloud.drivers.nspawn.disks.disk import Disk
from hermesops.localcloud.drivers.nspawn.disks.guest_files import remove_tree
from hermesops.localcloud.drivers.nspawn.disks.mounts import share, unshare
from hermesops.localcloud.drivers.nspawn.machine import Machine, forget_nspawn, known_to_nspawn
from hermesops.localcloud.drivers.nspawn.store import MachineRecord, Store
from hermesops.localcloud.drivers.nspawn.world_lock import identify
from hermesops.model.ids import MachineId


class Holding:
    """An open world.

    Args:
        store: Its files.
        name: Prefix of its names in the kernel.
        network: Its network.

    Attributes:
        records: Its finished machines.
        locks: One per machine, for whoever changes that machine.
        layers_lock: For whoever decides which image layers are in use.
    """

    def __init__(self, store: Store, name: str, network: Network) -> None:
        self.store = store
        self.network = network
        self.records: dict[MachineId, MachineRecord] = {}
        self.locks: defaultdict[MachineId, threading.RLock] = defaultdict(threading.RLock)
        self.layers_lock = threading.Lock()
        self._name = name
        self._groups = World(name)

    @classmethod
    def take_over(cls, store: Store, ports: Iterable[int], *, forgiving: bool) -> Self:
        """Make the world's network and groups, find running machines again, clear what a crash left half-made.

        Args:
            store: Its files; the caller owns the world.
            ports: What machines may reach of this computer.
            forgiving: Do with damaged records what can be done; for a world that is about to be removed.

        Raises:
            BrokenInvariantError: A record is damaged.
        """
        identity = identify(store.state, forgiving=forgiving)
        held = cls(store, identity.name, Network(identity.name, identity.subnet, tuple(ports)))
        share(store.machines_folder)
        held._groups.prepare()
        held.network.prepare()
        held._recover(forgiving=forgiving)
        return held

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
        """Remove a machine that is not finished, or whose record is damaged; absent is success."""
        if record is not None:
            self.machine(record).take_down()
        Disk(self.store.home(machine_id)).unmount()
        self.store.forget_machine(machine_id)

    def room(self) -> resources.Room:
        """What is free for machines on this computer."""
        groups = (self.machine(record).group for record in list(self.records.values()))
        return resources.free_room_of(self.store.state, [pids for pids in (group.pids() for group in groups) if pids])

    def remove(self) -> None:
        """Remove every trace of the world that is not a cache of bases; its machines must be deleted."""
        self._clear_strangers()
        self.network.remove()
        self._groups.remove()
        unshare(self.store.machines_folder)
        for name in ("machines", "images", "layers", "driver.json"):
            remove_tree(self.store.state / name)

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
        self._clear_strangers()
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

    def _clear_strangers(self) -> None:
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
