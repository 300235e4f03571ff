"""A worker: takes tasks from the queue and runs their operations, and fills the queue from the rows.

Whether the worker of a task is alive is told by the lease of the operation that the task is about, and by nothing else.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog

from hermesops.base import waiting
from hermesops.errors import HermesError, NotWrittenError, RefusedError, UsageError
from hermesops.model.ids import OperationId
from hermesops.model.operation import LeaseHeldError, LeaseLostError
from hermesops.store.operations import dispatch
from hermesops.store.operations.dispatch import Enqueue, Revive, Task
from hermesops.store.operations.leases.holder import is_gone
from hermesops.store.operations.reconcile import StoppedError
from hermesops.store.operations.runner import Operations
from hermesops.store.registry import Registry

if TYPE_CHECKING:  # DBOS loads for a second
    from hermesops.store.operations.queue import DbosQueue

_TICK_S = 0.5
_PRUNE_EVERY = 120
"""Ticks from one removal of old tasks to the next."""

_STRANDED = 6
"""Checks after which a task without a lease of its operation counts as stranded; longer than ``SETTLE_S``."""

_AFTER_LEASE = 2
"""The same once the operation was leased: the task may be about to end, but is no longer about to begin."""

_log = structlog.get_logger(__name__)


@dataclass
class Tally:
    """Counts the operations that a worker has run.

    Attributes:
        left: Operations that had to be left, by what stopped them; kept only by a worker that ends by itself.
    """

    done: int = 0
    failed: int = 0
    left: dict[OperationId, str] = field(default_factory=dict)


class Worker:
    """Works until ``stop``.

    Args:
        name: Unique for all time.
        grace_s: Seconds for running steps to end after a stop was requested; then they are cancelled.
    """

    def __init__(
        self,
        name: str,
        registry: Registry,
        operations: Operations,
        make_queue: Callable[[Callable[[OperationId], Awaitable[bool]]], "DbosQueue"],
        *,
        grace_s: float,
    ) -> None:
        self.name = name
        self.tally = Tally()
        self._registry = registry
        self._operations = operations
        self._queue = make_queue(self._turn)
        self._grace_s = grace_s
        self._stopping = asyncio.Event()
        self._is_draining = False
        self._turns: set[asyncio.Task[str]] = set()
        self._checks: dict[Task, int] = {}

    def stop(self) -> None:
        """End the step under way, begin no other, and return from ``run``; called again, cut the step short."""
        if self._stopping.is_set():
            for turn in self._turns:
                turn.cancel()
        self._stopping.set()

    async def run(self, *, once: bool = False) -> Tally:
        """Work until a stop is requested.

        Args:
            once: Stop when every operation has ended or been tried.

        Raises:
            UnavailableError: The queue does not open at the start; later failures are waited out.
            NotWrittenError: With ``once``, at any time: nobody waits for a disk.
        """
        self._is_draining = once
        await self._queue.open()
        try:
            _log.info("worker_started", worker=self.name)
            await self._loop()
            await waiting.finish(self._turns, self._grace_s)
        finally:
            await self._queue.close()
            _log.info("worker_stopped", worker=self.name, done=self.tally.done, failed=self.tally.failed)
        return self.tally

    async def _loop(self) -> None:
        ticks, problem = 0, ""
        while not self._stopping.is_set():
            try:
                if ticks % _PRUNE_EVERY == 0:
                    await self._queue.prune()
                is_idle = await self._tick()
            except HermesError as error:
                if self._is_draining and isinstance(error, NotWrittenError):
                    raise
                if problem != error.message:  # not twice a second into a log that may be on a full disk
                    _log.warning("worker_waits", worker=self.name, problem=error.message)
                problem = error.message
            else:
                problem = ""
                if is_idle and self._is_draining:
                    return
            ticks += 1
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), _TICK_S)

    async def _tick(self) -> bool:
        """Fill the queue once; returns whether this run has nothing left to do."""
        tasks = await self._queue.tasks()
        # After the tasks: a turn that ends in between is seen as ended, and its row with it.
        left = self.tally.left if self._is_draining else {}
        rows = [row for row in self._registry.operations.unfinished() if row.id not in left]
        leased = {lease.subject for lease in self._registry.leases.list() if not is_gone(lease.holder)}
        given_up = self._given_up(tasks, {row.id for row in rows if row.subject in leased})
        for step in dispatch.decide(rows, tasks, leased=leased, given_up=given_up, now=self._registry.now()):
            match step:
                case Enqueue(operation_id=operation_id):
                    await self._queue.enqueue(operation_id)
                case Revive(task_id=task_id):
                    _log.warning("task_taken_over", worker=self.name, task=task_id)
                    await self._queue.revive([task_id])
        return not rows and not self._turns

    def _given_up(self, tasks: Sequence[Task], leased: Collection[OperationId]) -> set[Task]:
        """Running tasks that their workers will not end, as no process leases their operations.

        Such a worker died, or its database failed at the end of a turn: DBOS then lists the task as running for ever.
        """
        self._checks = {
            task: _STRANDED - _AFTER_LEASE if task.operation_id in leased else self._checks.get(task, 0) + 1
            for task in tasks
            if task.worker
        }
        return {task for task, checks in self._checks.items() if checks > _STRANDED or is_gone(task.worker)}

    async def _turn(self, operation_id: OperationId) -> bool:
        """Work on an operation until it ends or cannot continue; returns whether to retry it later."""
        turn = asyncio.ensure_future(self._drive(operation_id))
        self._turns.add(turn)
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
