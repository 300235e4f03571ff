"""The driver of simulated machines: records in a database, limited only by memory. Needs no root.

What it answers is committed first, so a killed server loses nothing; machines go on living while none runs.
"""

import socket
from contextlib import ExitStack
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import NamedTuple

from hermesops.base.files.private_file import make_private_folder
from hermesops.errors import Hint, RefusedError
from hermesops.localcloud.drivers.interface import Capacity, MachinePlan, MachinePower, MachineSize
from hermesops.localcloud.drivers.sim.daemon.server import Daemon
from hermesops.localcloud.drivers.sim.disk import Disk, normal
from hermesops.localcloud.drivers.sim.machines import LOOPBACK, SimMachines
from hermesops.localcloud.drivers.sim.store import FILE, Entry, Record, Store
from hermesops.localcloud.server.process import hold
from hermesops.model.ids import ImageId, MachineId

MOST_MACHINES = 100_000
"""The most machines of a simulated world."""

_PRIVATE_FILE = 0o100600
_LOCK = "machines.lock"


class _Opened(NamedTuple):
    store: Store
    machines: SimMachines
    daemon: Daemon
    silent_port: int


class SimDriver:
    """A world of simulated machines in a folder; implements ``Driver``."""

    gateway = LOOPBACK
    subnet = ""
    unlimited = ("memory", "cpu", "disk")

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: _Opened | None = None
        self._closing = ExitStack()

    async def open(self) -> None:
        if self._open:
            return
        with ExitStack() as stack:
            make_private_folder(self._folder)
            stack.enter_context(hold(self._folder / _LOCK))
            store = Store(self._folder / FILE)
            stack.callback(store.close)
            machines = SimMachines(store)
            daemon = Daemon(machines)
            await daemon.open()
            # Bound and never listening: what connects to a machine that is off is refused, and by nobody else.
            silent = stack.enter_context(socket.socket())
            silent.bind((str(LOOPBACK), 0))
            self._open = _Opened(store, machines, daemon, int(silent.getsockname()[1]))
            self._closing = stack.pop_all()

    async def extend_base(self) -> None:
        """See ``Driver.extend_base``; a simulated machine has no packages."""

    async def close(self, *, purge: bool) -> None:
        if self._open:
            await self._open.daemon.close()
            self._open = None
        self._closing.close()
        if purge:
            for end in ("", "-wal", "-shm"):
                (self._folder / f"{FILE}{end}").unlink(missing_ok=True)
            (self._folder / _LOCK).unlink(missing_ok=True)

    @property
    def _world(self) -> _Opened:
        if self._open is None:
            raise RefusedError("the local world is not open", hint=Hint(("local", "up")))
        return self._open

    async def capacity(self) -> Capacity:
        free = max(0, MOST_MACHINES - len(self._world.store.machines))
        return Capacity(free, f"{free} of {MOST_MACHINES} places free, all simulated")

    # Machines

    async def create(self, plan: MachinePlan) -> None:
        store, machines, *_ = self._world
        if store.machine(plan.id):
            return
        free = await self.capacity()
        if not free.machines:
            raise RefusedError(f"no room for another machine: {free.figures}")
        if plan.number in machines.numbers:
            raise RefusedError(f"machine {machines.numbers[plan.number]} has number {plan.number} already")
        if plan.image_id and store.image_machine(plan.image_id) is None:
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
        with store.change():
            if plan.image_id:
                store.copy(plan.image_id, plan.id)
            disk = Disk(store, plan.id)
            for path, content in plan.files.items():
                disk.put(normal(path), Entry(_PRIVATE_FILE, 0, 0, content))
            store.put(record)
            machines.boot(record)
        machines.tokens[plan.daemon_token] = plan.id
        machines.numbers[plan.number] = plan.id

    async def start(self, machine_id: MachineId) -> None:
        machines = self._world.machines
        record = machines.record(machine_id)
        if not record.is_on:
            machines.boot(record)

    async def stop(self, machine_id: MachineId) -> None:
        """Stop a machine; see ``Driver.stop``. It takes no time."""
        machines = self._world.machines
        record = machines.record(machine_id)
        if record.is_on:
            machines.halt(record)

    async def reboot(self, machine_id: MachineId) -> None:
        machines = self._world.machines
        machines.boot(machines.record(machine_id))
        machines.cut(machine_id)

    async def delete(self, machine_id: MachineId) -> None:
        store, machines, *_ = self._world
        record = store.machine(machine_id)
        if record is None:
            return
        store.remove(machine_id)
        machines.tokens.pop(record.token, None)
        machines.numbers.pop(record.number, None)
        machines.cut(machine_id)

    async def resize(self, machine_id: MachineId, size: MachineSize) -> None:
        """Resize a machine; see ``Driver.resize``. It never fails."""
        record = self._world.machines.record(machine_id)
        disk_gib = max(record.disk_gib, size.disk_gib)
        resized = replace(record, vcpu=size.vcpu, memory_mib=size.memory_mib, disk_gib=disk_gib)
        self._world.store.put(resized)
        if resized.is_on:
            await self.reboot(machine_id)

    async def power(self, machine_id: MachineId) -> MachinePower:
        record = self._world.store.machine(machine_id)
        if record is None:
            return MachinePower.ABSENT
        if not record.is_on:
            return MachinePower.STOPPED
        return MachinePower.RUNNING if self._world.machines.is_up(record) else MachinePower.BOOTING

    async def powered(self) -> frozenset[MachineId]:
        return frozenset(MachineId(key) for key, record in self._world.store.machines.items() if record.is_on)

    def daemon_address(self, machine_id: MachineId) -> tuple[IPv4Address, int]:
        """See ``Driver.daemon_address``: one listener for all machines, and a port without one while this is down."""
        _, machines, daemon, silent_port = self._world
        return LOOPBACK, daemon.port if machines.is_up(machines.record(machine_id)) else silent_port

    # Images

    async def save_image(self, machine_id: MachineId, image_id: ImageId) -> int:
        store = self._world.store
        record = self._world.machines.record(machine_id)
        if store.image_machine(image_id) is None:
            with store.change():
                store.copy(record.id, image_id)
                Disk(store, image_id).forget_memory()
                store.put_image(image_id, record.id)
        return store.bytes_of(image_id)

    async def restore(self, machine_id: MachineId, image_id: ImageId) -> None:
        store, record = self._world.store, self._world.machines.record(machine_id)
        if store.image_machine(image_id) != record.id:
            raise RefusedError(f"image {image_id} is not one of machine {machine_id}")
        store.copy(image_id, record.id)
        if record.is_on:
            await self.reboot(machine_id)

    async def delete_image(self, image_id: ImageId) -> None:
        store = self._world.store
        users = [record.id for record in store.machines.values() if record.image_id == image_id]
        if users:
            raise RefusedError(f"image {image_id} is used by machine {users[0]}")
        store.remove_image(image_id)
