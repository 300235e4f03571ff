"""The one loop for everything long: observe, decide, do, record, again.

It may die at any moment: the next run observes anew and goes on from what is, never from what it remembers.
It must not know what it drives; that is the work's own module.
"""

from collections.abc import Callable
from typing import Protocol, TypeVar

from hermesops.errors import RefusedError, UnavailableError, UsageError
from hermesops.model.ids import OperationId
from hermesops.model.operation import Finished, Impossible, Operation, OperationStatus
from hermesops.operation.lease import LeaseKeeper, Leases

SeenT = TypeVar("SeenT")
StepT = TypeVar("StepT")

MOST_REPEATS = 3
"""How often the same step may follow from the same sight: what did not help thrice does not help."""


class Work(Protocol[SeenT, StepT]):
    """What the loop drives. ``decide`` is pure; ``do`` is idempotent and may be killed at any moment."""

    async def observe(self) -> SeenT:
        """Look at the world."""

    def decide(self, seen: SeenT) -> StepT | Finished | Impossible:
        """Say what to do next."""

    async def do(self, step: StepT, seen: SeenT) -> None:
        """Do it."""

    def describe(self, step: StepT, seen: SeenT) -> str:
        """Say the step in a few words, for people and for the row."""


class OperationRows(Protocol):
    """Where operations are recorded."""

    def record_step(self, operation_id: OperationId, step: str) -> None:
        """Note the step that begins now."""

    def finish_operation(self, operation_id: OperationId, status: OperationStatus, outcome: str) -> None:
        """Close the row, or note why it stands still."""


async def drive(
    operation: Operation,
    work: Work[SeenT, StepT],
    rows: OperationRows,
    leases: Leases,
    tell: Callable[[str], None],
) -> str:
    """Bring one operation to its end, holding its subject's lease all the while.

    Args:
        operation: The row; its ``subject`` is leased.
        work: What it intends.
        rows: Where steps are recorded.
        leases: Where leases are taken.
        tell: Called with a line of narration for each step.

    Returns:
        The outcome, one line.

    Raises:
        RefusedError: Somebody else holds the lease (the message names them), or the work cannot be done.
        HermesError: A step failed; the row stays open and the same command continues it.
    """
    async with LeaseKeeper(leases, operation.subject) as keeper:
        try:
            outcome = await keeper.guard(_steps(operation, work, rows, tell))
        except (RefusedError, UsageError) as error:
            rows.finish_operation(operation.id, OperationStatus.FAILED, error.message)
            raise
        rows.finish_operation(operation.id, OperationStatus.DONE, outcome)
        return outcome


async def _steps(
    operation: Operation, work: Work[SeenT, StepT], rows: OperationRows, tell: Callable[[str], None]
) -> str:
    repeats, last = 0, None
    while True:
        seen = await work.observe()
        match work.decide(seen):
            case Finished(outcome=outcome):
                return outcome
            case Impossible(error=error):
                raise error
            case step:
                words = work.describe(step, seen)
                repeats = repeats + 1 if (step, seen) == last else 1
                last = step, seen
                if repeats > MOST_REPEATS:
                    raise UnavailableError(
                        f"{words}: done {MOST_REPEATS} times, and nothing has changed by it",
                        hint=f"hermesops operation continue {operation.id} once you know why",
                    )
                tell(words)
                rows.record_step(operation.id, words)
                await work.do(step, seen)
