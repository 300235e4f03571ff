"""A worker: takes tasks from the queue and runs their operations, and fills the queue from the rows.

It counts as alive while it holds the lease of its own name. When that expires, its peers take over its tasks.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import structlog

from hermesops import waiting
from hermesops.errors import HermesError, RefusedError, UsageError
from hermesops.model.ids import OperationId
from hermesops.model.operation import LeaseHeldError, LeaseLostError
from hermesops.operations import dispatch
from hermesops.operations.dispatch import Enqueue, Revive, Task
from hermesops.operations.lease import LeaseKeeper
from hermesops.operations.reconcile import StoppedError
from hermesops.operations.runner import Operations
from hermesops.registry import Registry
from hermesops.waiting import cancel

WORKER = "worker/"
"""What the subjects of workers' own leases begin with."""

_TICK_S = 0.5
_PRUNE_EVERY = 120
"""Ticks from one removal of old tasks to the next."""

_PATIENCE = 10
"""Looks at a task of ours without a turn under way after which it counts as given up."""

_log = structlog.get_logger(__name__)


class Queue(Protocol):
    """Where tasks wait; see ``queue``."""

    async def open(self) -> None:
        """Begin to take tasks."""

    async def close(self) -> None:
        """Take no more."""

    async def tasks(self) -> Sequence[Task]:
        """The tasks that have not ended."""

    async def enqueue(self, operation_id: OperationId) -> None:
        """Put a task for an operation into it."""

    async def revive(self, task_ids: Sequence[str]) -> None:
        """Give tasks of dead workers to those that are alive."""

    async def prune(self) -> None:
        """Remove tasks that ended a while ago."""


@dataclass
class Tally:
    """What a worker has done.

    Attributes:
        left: Operations that had to be left, by what stopped them; kept only by a worker that ends by itself.
    """

    done: int = 0
    failed: int = 0
    left: dict[OperationId, str] = field(default_factory=dict)


class Worker:
    """Works until ``stop``.

    Args:
        name: Unlike that of any other process, ever.
        grace_s: Seconds that steps under way have to end after it was told to stop; then they are cut short.
    """

    def __init__(
        self,
        name: str,
        registry: Registry,
        operations: Operations,
        make_queue: Callable[[Callable[[OperationId], Awaitable[bool]]], Queue],
        *,
        grace_s: float,
    ) -> None:
        self.name = name
        self.tally = Tally()
        self._registry = registry
        self._operations = operations
        self._queue = make_queue(self._turn)
        self._grace_s = grace_s
        self._is_alive = asyncio.Event()
        self._stopping = asyncio.Event()
        self._is_draining = False
        self._turns: set[asyncio.Task[str]] = set()
        self._under_way: set[OperationId] = set()
        self._idle: dict[str, int] = {}

    def stop(self) -> None:
        """End the step under way, begin no other, and return from ``run``; called again, cut the step short."""
        if self._stopping.is_set():
            for turn in self._turns:
                turn.cancel()
        self._stopping.set()

    async def run(self, *, once: bool = False) -> Tally:
        """Take turns until told to stop.

        Args:
            once: Stop by itself when every operation has ended or been tried.

        Raises:
            UnavailableError: The queue does not open; later it is waited for.
        """
        self._is_draining = once
        alive = asyncio.create_task(self._stay_alive())
        try:
            # Before the first turn: peers take over the tasks of a worker that does not count as alive.
            await self._is_alive.wait()
            await self._queue.open()
            try:
                _log.info("worker_started", worker=self.name)
                await self._loop()
                await self._end_turns()
            finally:
                await self._queue.close()
        finally:
            await cancel(alive)
            _log.info("worker_stopped", worker=self.name, done=self.tally.done, failed=self.tally.failed)
        return self.tally

    async def _loop(self) -> None:
        ticks = 0
        while not self._stopping.is_set():
            try:
                if ticks % _PRUNE_EVERY == 0:
                    await self._queue.prune()
                is_idle = await self._tick()
            except HermesError as error:
                _log.warning("worker_waits", worker=self.name, problem=error.message)
            else:
                if is_idle and self._is_draining:
                    return
            ticks += 1
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), _TICK_S)

    async def _tick(self) -> bool:
        """Fill the queue once; whether there is nothing to do, as far as this run goes."""
        tasks = self._without_stranded(await self._queue.tasks())
        # After the tasks: a turn that ends in between is seen as ended, and its row with it.
        left = self.tally.left if self._is_draining else {}
        rows = [row for row in self._registry.operations.unfinished() if row.id not in left]
        leases = self._registry.leases.list()
        steps = dispatch.decide(
            rows,
            tasks,
            leased=frozenset(lease.subject for lease in leases),
            alive=frozenset(lease.subject.removeprefix(WORKER) for lease in leases if lease.subject.startswith(WORKER)),
            now=self._registry.now(),
        )
        for step in steps:
            match step:
                case Enqueue(operation_id=operation_id):
                    await self._queue.enqueue(operation_id)
                case Revive(task_id=task_id):
                    _log.warning("task_taken_over", worker=self.name, task=task_id)
                    await self._queue.revive([task_id])
        return not rows and not self._turns

    def _without_stranded(self, tasks: Sequence[Task]) -> list[Task]:
        """The tasks, those of ours that have no turn under way for a while no longer as ours.

        A database that goes away at the end of a turn lets DBOS give the task up and call it running for ever.
        """
        idle = {task.id for task in tasks if task.worker == self.name and task.operation_id not in self._under_way}
        self._idle = {task_id: self._idle.get(task_id, 0) + 1 for task_id in idle}
        stranded = {task_id for task_id, looks in self._idle.items() if looks > _PATIENCE}
        return [replace(task, worker="") if task.id in stranded else task for task in tasks]

    async def _turn(self, operation_id: OperationId) -> bool:
        """Work on an operation until it ends or cannot go on; whether to come back to it after a while."""
        turn = asyncio.ensure_future(self._drive(operation_id))
        self._turns.add(turn)
        self._under_way.add(operation_id)
        try:
            outcome = await turn
        except asyncio.CancelledError:
            turn.cancel()
            _log.warning("turn_cut_short", operation=operation_id)
            return False
        except StoppedError as stopped:
            _log.info("turn_stopped", operation=operation_id, why=stopped.message)
            return False
        except (LeaseHeldError, LeaseLostError) as held:
            self._note_left(operation_id, held)
            _log.info("operation_is_taken", operation=operation_id, why=held.message)
            return False
        except (RefusedError, UsageError) as refused:
            self.tally.failed += 1
            _log.warning("operation_failed", operation=operation_id, problem=refused.message)
            return False
        except HermesError as error:
            self._note_left(operation_id, error)
            _log.warning("turn_failed", operation=operation_id, problem=error.message, kind=type(error).__name__)
            return not self._is_draining
        finally:
            self._turns.discard(turn)
            self._under_way.discard(operation_id)
        self.tally.left.pop(operation_id, None)
        if outcome:
            self.tally.done += 1
            _log.info("operation_done", operation=operation_id, outcome=outcome)
        return False

    def _note_left(self, operation_id: OperationId, error: HermesError) -> None:
        if self._is_draining:
            self.tally.left[operation_id] = error.message

    async def _drive(self, operation_id: OperationId) -> str:
        if self._stopping.is_set():
            raise StoppedError("the worker is stopping")
        operation = self._registry.operations.get(operation_id)
        if operation.status.has_ended:
            return ""
        with structlog.contextvars.bound_contextvars(operation=operation_id):
            return await self._operations.run(operation, is_stopping=self._stopping.is_set)

    async def _end_turns(self) -> None:
        if not self._turns:
            return
        _, late = await asyncio.wait(set(self._turns), timeout=self._grace_s)
        for turn in late:
            turn.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def _stay_alive(self) -> None:
        """Hold the lease of our own name; a lost one is taken again, since nobody else wants it."""
        while True:
            try:
                async with LeaseKeeper(self._registry, WORKER + self.name, holder=self.name) as keeper:
                    self._is_alive.set()
                    await keeper.lost()
            except HermesError as error:
                _log.warning("worker_not_seen_alive", worker=self.name, problem=error.message)
            await waiting.pause(_TICK_S)
