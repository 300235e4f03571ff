"""The one loop for everything long: observe, decide, do, record, again.

It may die at any moment: the next run observes anew and goes on from what is, never from what it remembers.
It must not know what it drives; that is the work's own module.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from hermesops.errors import BrokenInvariantError, HermesError, RefusedError, UsageError
from hermesops.model.ids import OperationId
from hermesops.model.operation import Operation, OperationStatus
from hermesops.operation.lease import LeaseKeeper, Leases

SeenT = TypeVar("SeenT")
StepT = TypeVar("StepT")

MOST_STEPS = 40
"""More steps than any work needs: whoever takes so many decides in a circle."""


@dataclass(frozen=True)
class Finished:
    """Decided when nothing is left to do.

    Attributes:
        outcome: One line for the operation's row.
    """

    outcome: str


@dataclass(frozen=True)
class Impossible:
    """Decided when no step can bring the work to its end.

    Attributes:
        error: What the operator is told.
    """

    error: HermesError


class Work(Protocol[SeenT, StepT]):
    """What the loop drives. ``decide`` is pure; ``do`` is idempotent and may be killed at any moment."""

    async def observe(self) -> SeenT:
        """Look at the world."""

    def decide(self, seen: SeenT) -> StepT | Finished | Impossible:
        """Say what to do next."""

    async def do(self, step: StepT) -> None:
        """Do it."""

    def describe(self, step: StepT) -> str:
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
    for _ in range(MOST_STEPS):
        match work.decide(await work.observe()):
            case Finished(outcome=outcome):
                return outcome
            case Impossible(error=error):
                raise error
            case step:
                words = work.describe(step)
                tell(words)
                rows.record_step(operation.id, words)
                await work.do(step)
    raise BrokenInvariantError(
        f"operation {operation.id} took {MOST_STEPS} steps without an end",
        hint=f"hermesops operation show {operation.id}",
    )
