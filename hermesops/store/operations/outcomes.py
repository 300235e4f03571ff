"""The outcomes of one piece of work for several subjects, where one that fails keeps no other from being done."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from hermesops.base.narration import about
from hermesops.errors import HermesError, Hint, PartlyDoneError
from hermesops.model.operation import Operation

End = Callable[[Operation], Awaitable[str]]
"""Brings an operation to its end, or leaves it to the workers; returns its outcome in a line."""


@dataclass(frozen=True)
class Outcome:
    """The outcome for one subject: a cell, a user, a machine.

    Attributes:
        operation: The operation that does it; ``None`` where there is none.
        done: What was done, in a line; empty before and after a failure.
        problem: Why it was not done; empty when it was.
        error: The error with that message, where its class is known.
    """

    subject: str
    operation: Operation | None = None
    done: str = ""
    problem: str = ""
    error: HermesError | None = None


async def outcome_of(subject: str, work: Awaitable[Outcome]) -> Outcome:
    """Wait for the work for one subject; an error is its outcome."""
    try:
        return await work
    except HermesError as error:
        return failed(subject, error)


def failed(subject: str, error: HermesError) -> Outcome:
    """The outcome of work that raised an error."""
    return Outcome(subject, problem=error.message, error=error)


async def end_each(opened: Sequence[Outcome], end: End) -> tuple[Outcome, ...]:
    """End the operations that were opened, one after the other; an outcome without one stays as it is."""

    async def ended(outcome: Outcome) -> Outcome:
        if outcome.operation is None:
            return outcome
        with about(outcome.subject):
            return Outcome(outcome.subject, outcome.operation, await end(outcome.operation))

    return tuple([await outcome_of(outcome.subject, ended(outcome)) for outcome in opened])


def outcomes_of(problems: Mapping[str, str]) -> tuple[Outcome, ...]:
    """The outcomes of work without operations.

    Args:
        problems: By subject why it was not done, empty where it was.
    """
    return tuple(Outcome(subject, done="" if why else "done", problem=why) for subject, why in problems.items())


def problems_in(outcomes: Sequence[Outcome]) -> str:
    """Describe the failed subjects with their problems in one line; empty if none failed."""
    return "; ".join(f"{outcome.subject}: {outcome.problem}" for outcome in outcomes if outcome.problem)


def failure_of(outcomes: Sequence[Outcome], what: str, *, hint: Hint | str = "") -> HermesError | None:
    """The error of work that was not done for all; ``None`` when it was.

    The error of an only subject is that subject's own; several are partly done.

    Args:
        what: The work, in a few words.
    """
    count = sum(1 for outcome in outcomes if outcome.problem)
    if not count:
        return None
    if len(outcomes) == 1 and outcomes[0].error:
        return outcomes[0].error
    return PartlyDoneError(f"{what}: {count} of {len(outcomes)} not done: {problems_in(outcomes)}", hint=hint)
