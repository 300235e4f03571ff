"""The machines of an open world: made, booted, stopped and removed, each by one thread at a time.

Nothing is remembered that can be looked at: a machine runs when its control group holds a first process.
"""

import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path
from uuid import uuid4

from hermesops.errors import RefusedError
from hermesops.localcloud.drivers.interface import DAEMON_PORT, MachinePlan, MachinePower, MachineSize
from hermesops.localcloud.drivers.nspawn.disks import first_boot
from hermesops.localcloud.drivers.nspawn.disks.vendor_layer import ensure_vendor_layer
from hermesops.localcloud.drivers.nspawn.disks.volume import copy_volume, data_beside
from hermesops.localcloud.drivers.nspawn.open_world import Holding
from hermesops.localcloud.drivers.nspawn.store import MachineRecord
from hermesops.model.ids import MachineId

_ANSWER_S = 0.5


class Machines:
    """Works on machines.

    Args:
        held: The open world.
        base: Gives the folder of the base's root, built when it is not there.
    """

    def __init__(self, held: Holding, base: Callable[[], Path]) -> None:
        self._held = held
        self._base = base
        self._admission = threading.Lock()

    def address(self, machine_id: MachineId) -> IPv4Address:
        """A machine's own address.

        Raises:
            RefusedError: There is no such machine.
        """
        return self._held.network.address(self._held.record(machine_id).number)

    def create(self, plan: MachinePlan) -> None:
        """Make disk and network and boot it; one of that id that exists already is left as it is."""
        held = self._held
        with held.locks[plan.id]:
            if plan.id in held.records:
                return
            held.clear(plan.id, held.store.machine(plan.id))
            with held.layers_lock:  # from the record on, the image's layers are in use
                record = self._order(plan)
                held.store.save_machine(record)
            try:
                held.records[plan.id] = self._make(plan, record)
            except BaseException:
                held.clear(plan.id, record)
                raise

    def _make(self, plan: MachinePlan, record: MachineRecord) -> MachineRecord:
        held = self._held
        machine = held.machine(record)
        machine.take_down()
        machine.disk.make(plan.disk_gib)
        machine.mount()
        if record.layers:
            copy_volume(data_beside(held.store.layers / record.layers[-1]), machine.disk.volume.file)
        first_boot.personalise(
            machine.disk.root,
            plan,
            machine_id=record.machine_id,
            address=held.network.address(plan.number),
            broker=held.network.gateway,
        )
        made = replace(record, made=True)
        self._boot(held.machine(made).set_off)
        held.store.save_machine(made)
        return made

    def _order(self, plan: MachinePlan) -> MachineRecord:
        held = self._held
        held.network.address(plan.number)
        taken = next((other for other in held.records.values() if other.number == plan.number), None)
        if taken:
            raise RefusedError(f"machine {taken.id} has number {plan.number} already")
        if plan.image_id is None:
            base = str(self._base())
            layers: tuple[str, ...] = ()
        else:
            image = held.store.image(plan.image_id)
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
            vendor=str(ensure_vendor_layer(held.store.layers)),
            layers=layers,
        )

    def _boot(self, begin: Callable[[], None]) -> None:
        with self._admission:
            room = self._held.room()
            if room.machines < 1:
                raise RefusedError(
                    f"no room for another machine on this computer: {room}",
                    hint="stop or terminate a machine, or raise fs.inotify.max_user_instances if that is what lacks",
                )
            begin()

    def start(self, machine_id: MachineId) -> None:
        """Boot a stopped machine again; a running one is left alone."""
        with self._held.locks[machine_id]:
            machine = self._held.machine(self._held.record(machine_id))
            if not machine.group.pids():
                self._boot(machine.boot)

    def stop(self, machine_id: MachineId) -> None:
        """Shut a machine down cleanly, by force after ten seconds."""
        with self._held.locks[machine_id]:
            self._held.machine(self._held.record(machine_id)).stop()

    def reboot(self, machine_id: MachineId) -> None:
        """Reboot hard; a stopped machine is booted."""
        with self._held.locks[machine_id]:
            self._held.machine(self._held.record(machine_id)).reboot()

    def resize(self, machine_id: MachineId, size: MachineSize) -> None:
        """Give a machine another size; safe to repeat after it was cut short, which leaves the machine off."""
        held = self._held
        with held.locks[machine_id]:
            machine = held.machine(held.record(machine_id))
            was_on = bool(machine.group.pids())
            machine.stop()
            disk_gib = max(machine.record.disk_gib, size.disk_gib)
            machine.disk.grow(disk_gib)
            record = replace(machine.record, vcpu=size.vcpu, memory_mib=size.memory_mib, disk_gib=disk_gib)
            held.store.save_machine(record)
            held.records[machine_id] = record
            if was_on:
                self._boot(held.machine(record).boot)

    def delete(self, machine_id: MachineId) -> None:
        """Remove a machine and everything of it; absent is success."""
        held = self._held
        with held.locks[machine_id]:
            record = held.records.get(machine_id) or held.store.machine(machine_id)
            if record is not None:
                held.machine(record).take_down()
            held.store.forget_machine(machine_id)
            held.records.pop(machine_id, None)

    def delete_all(self) -> None:
        """Remove every machine."""
        for machine_id in list(self._held.records):
            self.delete(machine_id)

    def power(self, machine_id: MachineId) -> MachinePower:
        """Look at one machine; ``RUNNING`` once its daemon accepts connections."""
        record = self._held.records.get(machine_id)
        if record is None:
            return MachinePower.ABSENT
        if not self._held.machine(record).group.pids():
            return MachinePower.STOPPED
        try:
            with socket.create_connection((str(self.address(machine_id)), DAEMON_PORT), timeout=_ANSWER_S):
                return MachinePower.RUNNING
        except OSError:
            return MachinePower.BOOTING

    def powered(self) -> frozenset[MachineId]:
        """Those that have a process; one between two boots has its keeper."""
        records = list(self._held.records.values())
        return frozenset(record.id for record in records if self._held.machine(record).group.pids())
