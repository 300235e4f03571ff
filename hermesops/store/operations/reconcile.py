"""The loop that completes an operation: observe, decide, do, record, repeat.

It may die at any moment: the next run observes again and continues from that, not from memory.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Protocol, TypeVar

from hermesops.errors import HermesError, Hint, RefusedError, UnavailableError, UsageError
from hermesops.model.operation import Done, Lease, LeaseLostError, Operation, OperationStatus, Refused
from hermesops.store.operations.db_thread import in_db_thread
from hermesops.store.operations.leases.keeper import LeaseKeeper
from hermesops.store.registry import Registry

SeenT = TypeVar("SeenT")
StepT = TypeVar("StepT")

MOST_REPEATS = 3
"""How often the same step may follow from the same observation."""


class Reconciler(Protocol[SeenT, StepT]):
    """The parts of an operation that the loop calls."""

    async def observe(self) -> SeenT:
        """Read the present state of the machines and rows involved; changes nothing."""

    def decide(self, observation: SeenT) -> StepT | Done | Refused:
        """Choose the next step, or the outcome, from an observation. Pure."""

    async def do(self, step: StepT, observation: SeenT) -> None:
        """Do one step. Idempotent; may be killed anywhere."""

    def describe(self, step: StepT, observation: SeenT) -> str:
        """Say the step in a few words, for people and for the row."""


class StoppedError(UnavailableError):
    """The runner was stopped, between two steps."""


def never() -> bool:
    """Never stop: a command in the foreground is interrupted instead."""
    return False


async def drive(
    operation: Operation,
    make: Callable[[Operation, Lease], Reconciler[SeenT, StepT]],
    registry: Registry,
    leases: Registry,
    report: Callable[[str], None],
    is_stopping: Callable[[], bool] = never,
) -> str:
    """Bring one operation to its end, holding its subject's lease all the while.

    Args:
        operation: The row; its ``subject`` is leased.
        make: Makes the work that it intends, from the row and the lease under which it is done.
        is_stopping: Asked between steps whether to leave the rest to another run.

    Returns:
        The outcome, one line.

    Raises:
        LeaseHeldError: Another process works on it; the message names it.
        RefusedError: The work cannot be done; the row is closed with the reason.
        HermesError: A step failed; the row stays open and the same command continues it.
    """
    async with LeaseKeeper(leases, operation.subject) as keeper:
        try:
            outcome = await keeper.guard(
                _steps(operation, make(operation, keeper.lease), registry, keeper.lease, report, is_stopping)
            )
        except StoppedError:
            raise
        except asyncio.CancelledError:
            report(f"operation {operation.id} ({operation.kind}) stays open")
            raise
        except LeaseLostError as lost:
            words = f"{lost.message}; stopped without further changes"
            raise UnavailableError(words, hint=lost.hint) from lost
        except (RefusedError, UsageError) as error:
            await in_db_thread(
                registry.operations.finish, operation.id, OperationStatus.FAILED, error.message, lease=keeper.lease
            )
            raise
        except HermesError as error:
            with contextlib.suppress(HermesError):  # a note for people; the error itself matters more
                await in_db_thread(registry.operations.record_problem, operation.id, error.message, lease=keeper.lease)
            raise
        await in_db_thread(registry.operations.finish, operation.id, OperationStatus.DONE, outcome, lease=keeper.lease)
        return outcome


async def _steps(
    operation: Operation,
    work: Reconciler[SeenT, StepT],
    registry: Registry,
    lease: Lease,
    report: Callable[[str], None],
    is_stopping: Callable[[], bool],
) -> str:
    repeats, last = 0, None
    while True:
        if is_stopping():
            raise StoppedError(f"stopped between two steps of operation {operation.id}")
        observation = await work.observe()
        match work.decide(observation):
            case Done(outcome=outcome):
                return outcome
            case Refused(error=error):
                raise error
            case step:
                words = work.describe(step, observation)
                repeats = repeats + 1 if (step, observation) == last else 1
                last = step, observation
                if repeats > MOST_REPEATS:
                    raise UnavailableError(
                        f"{words}: done {MOST_REPEATS} times without effect",
                        hint=Hint(("operation", "continue", operation.id), "once you know why"),
                    )
                report(words)
                await in_db_thread(registry.operations.record_step, operation.id, words, lease=lease)
                await work.do(step, observation)
