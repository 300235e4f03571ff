"""Runs operations: the handler of a row's kind makes the work, the loop does it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hermesops.base import waiting
from hermesops.errors import BrokenInvariantError, Hint, RefusedError, UsageError
from hermesops.model.operation import Lease, LeaseHeldError, Operation, OperationKind, OperationStatus
from hermesops.store.operations.directory import refuse_ended
from hermesops.store.operations.intent import AbandonNote
from hermesops.store.operations.kinds.table import abandon_note
from hermesops.store.operations.leases.keeper import LeaseKeeper
from hermesops.store.operations.reconcile import Reconciler, drive, never
from hermesops.store.registry import Registry

QUEUED = "left to the workers"
"""The step of a row that was left to the workers."""

Handler = Callable[[Operation, Lease], Reconciler[Any, Any]]
"""Makes the work of an operation, done under a lease."""


@dataclass(frozen=True)
class Operations:
    """Runs operations until they end: acquires their leases, and drives their reconcilers."""

    registry: Registry
    handlers: Mapping[OperationKind, Handler]
    report: Callable[[str], None]

    async def run(self, operation: Operation, *, is_stopping: Callable[[], bool] = never) -> str:
        """Bring one operation to its end and return its outcome.

        Args:
            is_stopping: Asked between steps whether to leave the rest to another run.

        Raises:
            LeaseHeldError: Another process works on it.
            RefusedError: It cannot be done.
            HermesError: It stopped halfway; running it again continues.
        """
        make = self.handlers.get(operation.kind)
        if make is None:
            raise BrokenInvariantError(f"operation {operation.id} is of kind {operation.kind}, which nothing here does")
        return await drive(operation, make, self.registry, self.registry, self.report, is_stopping)

    def leave(self, operation: Operation) -> None:
        """Leave an operation to the workers: from here on any of them may take it."""
        self.registry.operations.record_step(operation.id, QUEUED)

    def leave_unless_held(self, operation: Operation) -> str:
        """Leave an operation to the workers where no process works on it; returns the process that does, or empty."""
        leases = self.registry.leases.list()
        holder = next((lease.holder for lease in leases if lease.subject == operation.subject), "")
        if not holder and not self.registry.operations.get(operation.id).status.has_ended:
            self.leave(operation)
        return holder

    async def resume(self, operation: Operation, *, wait_s: float = 0) -> str:
        """Continue an operation that was left, or wait for the end of one that another process works on.

        Where another process works on it, that is reported once, and then each of its steps.

        Args:
            wait_s: Seconds to wait for another process; should that stop early, the operation is continued here.

        Raises:
            RefusedError: It has failed or was abandoned.
            LeaseHeldError: Another process works on it, and ``wait_s`` is 0.
        """
        shown: list[str] = []

        def show(*lines: str) -> None:
            for line in filter(None, lines):
                if line not in shown[-1:]:
                    shown.append(line)
                    self.report(line)

        async def attempt() -> str | waiting.Pending[str]:
            now = self.registry.operations.get(operation.id)
            if now.status.has_ended:
                return _outcome(now)
            try:
                return await self.run(now)
            except LeaseHeldError as held:
                if wait_s == 0:
                    raise
                show("" if shown else f"follows: {held.message}", now.step)
                return waiting.Pending(f"{held.message}; {now.step}")

        refuse_ended(operation)
        what = f"operation {operation.id}"
        return await waiting.until(attempt, what=what, timeout_s=wait_s, every_s=0.5)


def _outcome(ended: Operation) -> str:
    if ended.status is OperationStatus.DONE:
        return ended.outcome
    raise RefusedError(
        f"operation {ended.id} has ended ({ended.status}): {ended.outcome}",
        hint=Hint(("operation", "show", ended.id)),
    )


async def abandon(operation: Operation, registry: Registry, *, reason: str) -> AbandonNote:
    """Close an operation's row, so that it is not continued; nothing else is changed.

    Args:
        reason: Why; goes into the outcome and the audit.

    Returns:
        What it leaves behind.

    Raises:
        UsageError: No reason was given.
        RefusedError: It has ended, or a process works on it.
    """
    if not reason.strip():
        raise UsageError(
            "missing: state why the operation is abandoned",
            hint=Hint(("operation", "abandon", "ID", "--reason", "WHY")),
            field="reason",
        )
    refuse_ended(operation)
    async with LeaseKeeper(registry, operation.subject) as keeper:
        outcome = f"abandoned: {reason.strip()}"
        registry.operations.finish(operation.id, OperationStatus.ABANDONED, outcome, lease=keeper.lease)
    return abandon_note(operation)
