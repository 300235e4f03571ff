"""A driver without machines: each is an id and the real daemon program on a loopback port.

For tests of that daemon, and of a server whose driver fails or is held halfway; others simulate their machines.
"""

import asyncio
import contextlib
import json
import os
import socket
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from pathlib import Path

from hermesops.base.waiting import Pending, until
from hermesops.errors import RefusedError, UnavailableError
from hermesops.localcloud.drivers.interface import Capacity, MachinePlan, MachinePower, MachineSize
from hermesops.model.ids import ImageId, MachineId

LOOPBACK = IPv4Address("127.0.0.1")

# The daemon makes control groups where it may; here it must leave this computer's alone. It ends with whoever started
# it, also when that was killed: its id comes as an argument, since a parent may be gone before it is looked at.
_DAEMON = """
import json, os, sys, threading, time
def end_with_parent():
    while os.getppid() == int(sys.argv[2]):
        time.sleep(1)
    os._exit(0)
threading.Thread(target=end_with_parent, daemon=True).start()
time.sleep(float(sys.argv[3]))
from hermesops.localcloud.vendor_daemon import execution, system
system.take_name()
execution.group_root = lambda: None
from hermesops.localcloud.vendor_daemon.server import Config, Server
Server(Config(**json.loads(sys.argv[1]))).run(lambda: print("ready", flush=True))
"""


@dataclass
class Pretended:
    plan: MachinePlan
    port: int
    daemon: asyncio.subprocess.Process | None = None
    boots: int = 0
    switching: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass
class PretendDriver:
    """Implements ``Driver`` in memory.

    Attributes:
        boot_s: Seconds until a booted machine's daemon is started.
        fails: Message of the error the next ``create`` ends with; empty for none.
        calls: What was asked, in order.
    """

    places: int = 8
    boot_s: float = 0.0
    fails: str = ""
    calls: list[str] = field(default_factory=list)
    machines: dict[str, Pretended] = field(default_factory=dict)
    images: set[str] = field(default_factory=set)
    gateway: IPv4Address = LOOPBACK
    subnet: str = ""
    unlimited: tuple[str, ...] = ("memory", "cpu", "disk")
    image_gate: asyncio.Event | None = None
    create_gate: asyncio.Event | None = None
    resize_gate: asyncio.Event | None = None

    async def open(self) -> None:
        self.calls.append("open")

    async def extend_base(self) -> None:
        self.calls.append("extend_base")

    async def create(self, plan: MachinePlan) -> None:
        self.calls.append(f"create {plan.number}")
        if self.create_gate:
            await self.create_gate.wait()
        if self.fails:
            message, self.fails = self.fails, ""
            raise UnavailableError(message)
        if plan.image_id and plan.image_id not in self.images:
            raise RefusedError(f"no image {plan.image_id}")
        machine = self.machines.setdefault(plan.id, Pretended(plan, _free_port()))
        await self._boot(machine)

    async def start(self, machine_id: MachineId) -> None:
        self.calls.append("start")
        await self._boot(self.machines[machine_id])

    async def stop(self, machine_id: MachineId) -> None:
        self.calls.append("stop")
        await self._halt(self.machines[machine_id])

    async def reboot(self, machine_id: MachineId) -> None:
        self.calls.append("reboot")
        await self._halt(self.machines[machine_id])
        await self._boot(self.machines[machine_id])

    async def delete(self, machine_id: MachineId) -> None:
        self.calls.append("delete")
        if machine := self.machines.pop(machine_id, None):
            await self._halt(machine)

    async def resize(self, machine_id: MachineId, size: MachineSize) -> None:
        if self.resize_gate:  # off, and held there; the server may die meanwhile
            await self._halt(self.machines[machine_id])
        self.calls.append(f"resize {size.vcpu} {size.memory_mib} {size.disk_gib}")
        if self.resize_gate:
            await self.resize_gate.wait()
        await self._reboot_if_on(machine_id)

    async def restore(self, machine_id: MachineId, image_id: ImageId) -> None:
        self.calls.append("restore")
        if image_id not in self.images:
            raise RefusedError(f"no image {image_id}")
        await self._reboot_if_on(machine_id)

    async def _reboot_if_on(self, machine_id: MachineId) -> None:
        machine = self.machines[machine_id]
        if machine.daemon:
            await self._halt(machine)
            await self._boot(machine)

    async def power(self, machine_id: MachineId) -> MachinePower:
        machine = self.machines.get(machine_id)
        if machine is None:
            return MachinePower.ABSENT
        return MachinePower.RUNNING if machine.daemon else MachinePower.STOPPED

    async def powered(self) -> frozenset[MachineId]:
        return frozenset(MachineId(name) for name, machine in self.machines.items() if machine.daemon)

    async def power_itself_off(self, machine_id: str) -> None:
        """What ``poweroff`` does on a machine."""
        await self._halt(self.machines[machine_id])

    async def until_called(self, call: str) -> None:
        """Wait until it has been asked for something."""

        async def check() -> bool | Pending[bool]:
            return call in self.calls or Pending(str(self.calls))

        await until(check, what=f"the driver to be asked to {call}", timeout_s=10, every_s=0.01)

    def daemon_address(self, machine_id: MachineId) -> tuple[IPv4Address, int]:
        if machine_id not in self.machines:
            raise RefusedError(f"no machine {machine_id}")
        return LOOPBACK, self.machines[machine_id].port

    async def save_image(self, machine_id: MachineId, image_id: ImageId) -> int:
        self.calls.append("save_image")
        if self.image_gate:
            await self.image_gate.wait()
        if machine_id not in self.machines:
            raise RefusedError(f"no machine {machine_id}")
        self.images.add(image_id)
        return 1234

    async def delete_image(self, image_id: ImageId) -> None:
        if any(machine.plan.image_id == image_id for machine in self.machines.values()):
            raise RefusedError(f"a machine uses image {image_id}")
        self.images.discard(image_id)

    async def capacity(self) -> Capacity:
        free = self.places - len(self.machines)
        return Capacity(free, f"{free} places free")

    async def close(self, *, purge: bool) -> None:
        self.calls.append("purge" if purge else "close")
        if purge:
            for machine_id in list(self.machines):
                await self.delete(MachineId(machine_id))

    async def _boot(self, machine: Pretended) -> None:
        async with machine.switching:  # or who halts it meanwhile finds nothing to kill
            if not machine.daemon:
                await self._launch(machine)

    async def _launch(self, machine: Pretended) -> None:
        machine.boots += 1
        settings = {
            "address": str(LOOPBACK),
            "port": machine.port,
            "broker": str(LOOPBACK),
            "token": machine.plan.daemon_token,
        }
        machine.daemon = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-c", _DAEMON, json.dumps(settings), str(os.getpid()), str(self.boot_s)),
            cwd=Path(__file__).parents[4],
            stdout=asyncio.subprocess.DEVNULL,
        )

    async def _halt(self, machine: Pretended) -> None:
        async with machine.switching:
            if daemon := machine.daemon:
                machine.daemon = None
                with contextlib.suppress(ProcessLookupError):
                    daemon.kill()
                await daemon.wait()


@contextlib.asynccontextmanager
async def pretended() -> AsyncIterator[PretendDriver]:
    """A driver whose daemons have ended when the block has; servers on it belong inside the block."""
    driver = PretendDriver()
    try:
        yield driver
    finally:
        await driver.close(purge=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((str(LOOPBACK), 0))
        return int(probe.getsockname()[1])
