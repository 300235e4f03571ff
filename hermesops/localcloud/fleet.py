"""The machines: orders are written down, then one task per machine brings the computer to what is wanted.

A task looks, decides (``steps``), does one thing, and looks again, so it may be killed anywhere.
It must not answer requests; handlers write what is wanted and ``poke``.
"""

import asyncio
import json
from ipaddress import IPv4Address

import structlog

from hermesops.errors import HermesError
from hermesops.localcloud.broker import Broker, MachineDownError
from hermesops.localcloud.catalog import SERVER_TYPES
from hermesops.localcloud.driver import MachinePlan, MachinePower
from hermesops.localcloud.host_driver import HostDriver
from hermesops.localcloud.moment import now
from hermesops.localcloud.rows import MachineRow, MachineStatus, Wanted
from hermesops.localcloud.steps import Step, next_step
from hermesops.localcloud.store import Store
from hermesops.model.ids import ImageId, MachineId
from hermesops.waiting import pause

_LOOK_EVERY_S = 0.05
_LOOK_AGAIN_S = 1.0
_BOOT_PATIENCE_LOOKS = 1200
_RETRY_S = 2.0
_WATCH_EVERY_S = 1.0

log = structlog.get_logger()


class Fleet:
    """Brings every machine to what its owner wants.

    Args:
        store: What is wanted.
        driver: Runs the machines.
    """

    def __init__(self, store: Store, driver: HostDriver) -> None:
        self._store = store
        self._driver = driver
        self._broker = Broker(self)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._bearers: dict[str, str] = {}
        self._closing = False
        self._watching: asyncio.Task[None] | None = None

    @property
    def broker(self) -> Broker:
        """The way to the machines' daemons."""
        return self._broker

    async def open(self) -> None:
        """Take the world over and go on with everything that was begun."""
        await self._driver.open()
        powered = await self._driver.powered()
        for row in self._store.find(MachineRow):
            if row.status == MachineStatus.READY and row.id not in powered:
                # The computer was off meanwhile: what was ready then is not ready now, and is started again.
                self._write(row, status=MachineStatus.STOPPED)
            self.poke(row.id)
        self._watching = asyncio.create_task(self._watch(), name="watch-machines")

    async def close(self) -> None:
        """Stop bringing about; the machines stay as they are."""
        self._closing = True
        tasks = [*self._tasks.values(), *([self._watching] if self._watching else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._broker.close()

    def daemon_of(self, machine_id: str) -> tuple[IPv4Address, int, str]:
        """Where a machine's daemon is, and the bearer it takes; see ``DaemonDirectory``.

        Raises:
            MachineDownError: The driver has no such machine (yet, or any more).
        """
        if machine_id not in self._bearers:
            row = self._store.get(MachineRow, machine_id)
            self._bearers[machine_id] = row.daemon_token if row else ""
        try:
            address, port = self._driver.daemon_address(MachineId(machine_id))
        except HermesError as error:
            raise MachineDownError(error.message) from error
        return address, port, self._bearers[machine_id]

    def address(self, row: MachineRow) -> IPv4Address | None:
        """A machine's own address, once it is made."""
        try:
            return self._driver.daemon_address(MachineId(row.id))[0] if row.made else None
        except HermesError:
            return None

    async def room(self) -> tuple[int, str]:
        """How many more machines can be ordered now, those ordered but not yet made counted; and the figures."""
        room = await self._driver.room()
        coming = sum(not row.made for row in self._store.machines())
        return max(0, room.machines - coming), str(room)

    def unsettled(self) -> list[str]:
        """Names of machines that are still being brought to what is wanted, but for those that are in trouble."""
        rows = self._store.machines()
        return [row.name for row in rows if row.id in self._tasks and row.status != MachineStatus.ERROR]

    def poke(self, machine_id: str) -> None:
        """What is wanted of a machine has changed: have it looked at."""
        if machine_id in self._tasks:
            self._again.add(machine_id)
        elif not self._closing:
            task = asyncio.create_task(self._settle(machine_id), name=f"settle-{machine_id}")
            self._tasks[machine_id] = task
            task.add_done_callback(lambda done: self._settled(machine_id, done))

    async def gone(self, machine_id: str, timeout_s: float) -> None:
        """Wait until nothing is left of a deleted machine; past the timeout that goes on by itself."""
        if task := self._tasks.get(machine_id):
            await asyncio.wait({task}, timeout=timeout_s)

    def _settled(self, machine_id: str, task: asyncio.Task[None]) -> None:
        del self._tasks[machine_id]
        if not task.cancelled() and (failure := task.exception()):
            log.error("machine_task_failed", machine=machine_id, exc_info=failure)
        if machine_id in self._again:
            self._again.discard(machine_id)
            self.poke(machine_id)

    async def _watch(self) -> None:
        """Have machines looked at that go off by themselves: nobody wants anything of them, so no task would."""
        while True:
            await pause(_WATCH_EVERY_S)
            ready = [row.id for row in self._store.machines() if row.status == MachineStatus.READY]
            try:
                powered = await self._driver.powered() if ready else frozenset()
            except HermesError as failure:
                log.warning("machines_not_seen", error=failure.message)
                continue
            for machine_id in set(ready) - powered - self._tasks.keys():
                self.poke(machine_id)

    async def _settle(self, machine_id: str) -> None:
        looks = 0
        while row := self._store.get(MachineRow, machine_id):
            self._again.discard(machine_id)
            try:
                step = await self._look(row)
                if step is Step.REST:
                    if machine_id in self._again:
                        continue
                    return
                if step is not Step.AWAIT:
                    log.info("machine_step", machine=row.name, step=step)
                await self._do(step, row)
            except HermesError as failure:
                log.warning("machine_step_failed", machine=row.name, error=failure.message)
                self._fail(row, failure.message)
                await pause(_RETRY_S)
            if step is Step.AWAIT:
                looks += 1
                await self._be_patient(row, looks)

    async def _look(self, row: MachineRow) -> Step:
        if row.wanted == Wanted.DELETED or not row.made:
            return next_step(row, MachinePower.ABSENT, answers=False)
        power = await self._driver.power(MachineId(row.id))
        asked = power is MachinePower.RUNNING and row.wanted == Wanted.RUNNING and not row.reboot
        return next_step(row, power, answers=asked and await self._broker.answers(row.id))

    async def _do(self, step: Step, row: MachineRow) -> None:
        machine_id = MachineId(row.id)
        match step:
            case Step.REMOVE:
                await self._driver.delete(machine_id)
                await self._broker.cut(row.id)
                self._store.remove(MachineRow, row.id)
                self._bearers.pop(row.id, None)
            case Step.CREATE:
                await self._driver.create(_plan_of(row))
                self._write(row, made=True, message="", **_stage("cloud_init_running"))
            case Step.START:
                self._write(row, status=MachineStatus.STOPPED)
                await self._driver.start(machine_id)
            case Step.STOP:
                await self._driver.stop(machine_id)
                await self._broker.cut(row.id)
            case Step.REBOOT:
                # Written first: a machine that reboots once too few shows; one that reboots for ever does not.
                self._write(row, reboot=False)
                await self._driver.reboot(machine_id)
                await self._broker.cut(row.id)
            case Step.CALL_OFF:
                if row.id not in self._again:  # else its owner has just asked for something, which goes first
                    self._write(row, status=MachineStatus.STOPPED, wanted=Wanted.STOPPED)
                await self._broker.cut(row.id)
            case _:
                self._call(step, row)

    def _call(self, step: Step, row: MachineRow) -> None:
        """Write down what was seen, where there is nothing else to do."""
        match step:
            case Step.CALL_READY:
                self._write(row, status=MachineStatus.READY, ready_at=row.ready_at or now(), message="",
                            **_stage("services_ready"))  # fmt: skip
            case Step.CALL_STOPPED:
                self._write(row, status=MachineStatus.STOPPED)
            case Step.CALL_LOST:
                self._fail(row, "the machine's disk is gone from this computer")
            case _:
                pass

    async def _be_patient(self, row: MachineRow, looks: int) -> None:
        if looks == _BOOT_PATIENCE_LOOKS:
            self._fail(row, "the machine's daemon does not answer")
        await pause(_LOOK_EVERY_S if looks < _BOOT_PATIENCE_LOOKS else _LOOK_AGAIN_S)

    def _fail(self, row: MachineRow, why: str) -> None:
        self._write(row, status=MachineStatus.ERROR, message=why)

    def _write(self, row: MachineRow, **changes: str | int | None) -> None:
        self._store.update(MachineRow, row.id, **changes)


def _stage(stage: str) -> dict[str, str]:
    return {"stage": stage, "stage_at": now()}


def _plan_of(row: MachineRow) -> MachinePlan:
    """The same plan each time it is asked for: a create that was cut short is repeated with it."""
    kind = SERVER_TYPES[row.server_type]
    env = "".join(f"{name}={_quoted(value)}\n" for name, value in json.loads(row.env).items())
    config = {"slug": row.slug, "machine_token": row.machine_token, "callback_url": ""}
    return MachinePlan(
        id=MachineId(row.id),
        number=row.number,
        hostname=row.slug,
        daemon_token=row.daemon_token,
        image_id=ImageId(row.image_id) if row.image_id else None,
        vcpu=kind.vcpu,
        memory_mib=kind.ram_gb * 1024,
        disk_gib=kind.disk_gb,
        files={
            "/etc/justavps/env": env.encode(),
            "/etc/justavps/config.json": json.dumps(config).encode(),
            "/root/.ssh/authorized_keys": f"{row.public_key}\n".encode(),
        },
        init_script=row.init_script,
    )


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "'\\''") + "'"
