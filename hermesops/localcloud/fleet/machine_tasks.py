"""The machines' tasks: orders are stored, then one task per machine brings the computer to the wanted state.

A task observes, decides (``steps``), does one thing, and observes again, so it may be killed anywhere.
It must not answer requests; handlers write what is wanted and ``wake``.
"""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from ipaddress import IPv4Address

import structlog

from hermesops.base.waiting import pause
from hermesops.errors import HermesError, RefusedError
from hermesops.localcloud.drivers.interface import Capacity, Driver, MachinePower
from hermesops.localcloud.fleet.steps import Step, next_step, plan_of, size_of
from hermesops.localcloud.proxy.broker import Broker, MachineDownError
from hermesops.localcloud.store.database import Store
from hermesops.localcloud.store.rows import BackupRow, MachineRow, MachineStatus, Wanted, now
from hermesops.localcloud.webhooks import Webhooks
from hermesops.model.ids import ImageId, MachineId

_BOOT_POLL_S = 0.05
_LATE_POLL_S = 1.0
_BOOT_TRIES = 1200
_RETRY_S = 2.0
_WATCH_EVERY_S = 1.0
_LAST_STAGES = ("cloud_init_done", "services_starting", "services_ready")

log = structlog.get_logger()


def address_of(driver: Driver, row: MachineRow) -> IPv4Address | None:
    """A machine's own address, once it is made."""
    try:
        return driver.daemon_address(MachineId(row.id))[0] if row.made else None
    except HermesError:
        return None


class Fleet:
    """Brings every machine to its wanted state, and sends an event for every change."""

    def __init__(self, store: Store, driver: Driver, webhooks: Webhooks) -> None:
        self._store = store
        self._driver = driver
        self._webhooks = webhooks
        self.broker = Broker(self.daemon_of)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._bearers: dict[str, str] = {}
        self._closing = False
        self._watching: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Take the world over and continue everything that was begun."""
        await self._driver.open()
        powered = await self._driver.powered()
        for row in self._store.find(MachineRow):
            if row.status == MachineStatus.READY and row.id not in powered:
                # The computer was off meanwhile: what was ready then is not ready now, and is started again.
                self._write(row, status=MachineStatus.STOPPED)
            elif (row.made, row.status, row.wanted) == (True, MachineStatus.READY, Wanted.RUNNING) and not (
                row.reboot or row.resize or row.restore
            ):
                continue  # as most of thousands of machines are; the watch sees those that go off later
            self.wake(row.id)
        self._watching = asyncio.create_task(self._watch(), name="watch-machines")

    async def close(self) -> None:
        """Stop the tasks; the machines stay as they are."""
        self._closing = True
        tasks = [*self._tasks.values(), *([self._watching] if self._watching else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.broker.close()

    def daemon_of(self, machine_id: str) -> tuple[IPv4Address, int, str]:
        """Address and port of a machine's daemon, and the bearer it takes.

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

    def names_of(self, machine_id: str) -> tuple[str, ...]:
        """Id, name and slug of a machine; only the argument if there is no such machine."""
        row = self._store.get(MachineRow, machine_id) if machine_id else None
        return row.names if row else (machine_id,) if machine_id else ()

    def address(self, row: MachineRow) -> IPv4Address | None:
        """A machine's own address, once it is made."""
        return address_of(self._driver, row)

    async def capacity(self) -> Capacity:
        """Free capacity for further orders; machines that are ordered but not yet made are counted as made."""
        free = await self._driver.capacity()
        return replace(free, machines=max(0, free.machines - self._store.coming()))

    @property
    def unlimited(self) -> tuple[str, ...]:
        """Limits of a server type that this computer cannot enforce."""
        return self._driver.unlimited

    def unsettled(self) -> list[str]:
        """Names of machines that are still being started, stopped or changed, but for those in error."""
        rows = filter(None, (self._store.get(MachineRow, machine_id) for machine_id in self._tasks))
        return [row.name for row in rows if row.wanted != Wanted.DELETED and row.status != MachineStatus.ERROR]

    def ordered(self, row: MachineRow) -> None:
        """Send the event of a new machine, and start its task."""
        log.info("machine_ordered", machine=row.name, id=row.id)
        self._webhooks.machine_changed(None, row)
        self.wake(row.id)

    def wake(self, machine_id: str) -> None:
        """Wake a machine's task after a change of its wanted state."""
        if machine_id in self._tasks:
            self._again.add(machine_id)
        elif not self._closing:
            task = asyncio.create_task(self._settle(machine_id), name=f"settle-{machine_id}")
            self._tasks[machine_id] = task
            task.add_done_callback(lambda done: self._settled(machine_id, done))

    async def gone(self, machine_id: str, timeout_s: float) -> None:
        """Wait until nothing is left of a deleted machine, or for the timeout; the deletion continues regardless."""
        if task := self._tasks.get(machine_id):
            await asyncio.wait({task}, timeout=timeout_s)

    def _settled(self, machine_id: str, task: asyncio.Task[None]) -> None:
        del self._tasks[machine_id]
        if not task.cancelled() and (failure := task.exception()):
            log.error("machine_task_failed", machine=machine_id, exc_info=failure)
        if machine_id in self._again:
            self._again.discard(machine_id)
            self.wake(machine_id)

    async def _watch(self) -> None:
        """Wake the tasks of machines that switch off by themselves: nothing else would."""
        while True:
            await pause(_WATCH_EVERY_S)
            ready = self._store.ready_ids()
            try:
                powered = await self._driver.powered() if ready else frozenset()
            except HermesError as failure:
                log.warning("machines_not_seen", error=failure.message)
                continue
            for machine_id in set(ready) - powered - self._tasks.keys():
                self.wake(machine_id)

    async def _settle(self, machine_id: str) -> None:
        awaited = 0
        while row := self._store.get(MachineRow, machine_id):
            self._again.discard(machine_id)
            try:
                step = await self._observed_step(row)
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
                awaited += 1
                if awaited == _BOOT_TRIES:
                    self._fail(row, "the machine's daemon does not answer")
                await pause(_BOOT_POLL_S if awaited < _BOOT_TRIES else _LATE_POLL_S)

    async def _observed_step(self, row: MachineRow) -> Step:
        if row.wanted == Wanted.DELETED or not row.made:
            return next_step(row, MachinePower.ABSENT, answers=False)
        power = await self._driver.power(MachineId(row.id))
        should_run = power is MachinePower.RUNNING and row.wanted == Wanted.RUNNING and not row.reboot
        return next_step(row, power, answers=should_run and await self.broker.answers(row.id))

    async def _do(self, step: Step, row: MachineRow) -> None:
        machine_id = MachineId(row.id)
        match step:
            case Step.REMOVE:
                await self._remove(row)
            case Step.CREATE:
                await self._driver.create(plan_of(row))
                self._write(row, made=True, message="", **_stage("server_created"))
                self._write(row, **_stage("cloud_init_running"))
            case Step.START:
                self._write(row, status=MachineStatus.STOPPED)
                await self._driver.start(machine_id)
            case Step.STOP:
                await self._driver.stop(machine_id)
                await self.broker.cut(row.id)
            case Step.REBOOT:
                # Written first: a machine that reboots once too few shows; one that reboots for ever does not.
                self._write(row, reboot=False)
                await self._driver.reboot(machine_id)
                await self.broker.cut(row.id)
            case Step.RESIZE:
                await self._remake(row, self._driver.resize(machine_id, size_of(row.resize)), server_type=row.resize)
            case Step.RESTORE:
                await self._remake(row, self._driver.restore(machine_id, ImageId(row.restore)))
            case Step.RECORD_OFF:
                if row.id not in self._again:  # else its owner has just asked for something, which goes first
                    self._write(row, status=MachineStatus.STOPPED, wanted=Wanted.STOPPED)
                await self.broker.cut(row.id)
            case _:
                self._record(step, row)

    async def _remove(self, row: MachineRow) -> None:
        await self._driver.delete(MachineId(row.id))
        await self.broker.cut(row.id)
        for backup in self._store.find(BackupRow, machine_id=row.id):  # they do not outlive their machine
            await self._driver.delete_image(ImageId(backup.id))
            self._store.remove(BackupRow, backup.id)
        self._store.remove(MachineRow, row.id)
        self._bearers.pop(row.id, None)
        self._webhooks.machine_gone(row)

    def _record(self, step: Step, row: MachineRow) -> None:
        """Store the observed state, if there is no other step."""
        match step:
            case Step.RECORD_READY:
                for stage in _LAST_STAGES[_LAST_STAGES.index(row.stage) + 1 if row.stage in _LAST_STAGES else 0 :]:
                    self._write(row, **_stage(stage))
                self._write(row, status=MachineStatus.READY, ready_at=row.ready_at or now(), message="")
            case Step.RECORD_STOPPED:
                self._write(row, status=MachineStatus.STOPPED)
            case Step.RECORD_LOST:
                self._fail(row, "the machine's disk is gone from this computer")
            case Step.AWAIT | Step.REST:
                pass

    async def _remake(self, row: MachineRow, work: Awaitable[None], **done: str) -> None:
        """Restart a machine, or do work that includes a restart; refused work is dropped, failed work is retried."""
        try:
            await work
        except RefusedError as refusal:
            done = {"message": refusal.message}
        if row.wanted == Wanted.RUNNING and await self._driver.power(MachineId(row.id)) is MachinePower.STOPPED:
            # Cut short between off and on: it did not power itself off, and is started again.
            done["status"] = MachineStatus.STOPPED
        order = "restore" if row.restore else "resize"
        if getattr(self._store.get(MachineRow, row.id) or row, order) == getattr(row, order):
            done[order] = ""  # another one that was given meanwhile stays
        self._write(row, **done)
        await self.broker.cut(row.id)

    def _fail(self, row: MachineRow, why: str) -> None:
        self._write(row, status=MachineStatus.ERROR, message=why)

    def _write(self, row: MachineRow, **changes: str | int | None) -> None:
        before = self._store.get(MachineRow, row.id)
        if before is None:
            return
        if changes.get("status", before.status) != before.status:
            changes["status_before"] = before.status
        self._store.update(MachineRow, row.id, **changes)
        self._webhooks.machine_changed(before, replace(before, **changes))  # type: ignore[arg-type]


def _stage(stage: str) -> dict[str, str]:
    return {"stage": stage, "stage_at": now()}
