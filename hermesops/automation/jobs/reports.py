"""Reports of jobs' runs: from the problem of each subject, or from operations that are left to the workers."""

from collections.abc import Awaitable, Mapping, Sequence

from hermesops.automation.jobs.runner import Report
from hermesops.base.narration import counted
from hermesops.errors import HermesError, Hint, PartlyDoneError
from hermesops.store.operations.outcomes import failure_of, outcomes_of, problems_in
from hermesops.store.operations.runner import Operations


def report_of(reasons: Mapping[str, str], words: str, noun: str) -> Report:
    """The report of work without operations.

    Args:
        reasons: Why each subject was not done; empty where it was.
        words: The result, with ``{}`` for the number of subjects that were done.
        noun: What a subject is, in the singular.
    """
    outcomes = outcomes_of(reasons)
    done = counted(sum(1 for why in reasons.values() if not why), noun)
    return Report(words.format(done), problems_in(outcomes), outcomes)


async def reported(doing: Awaitable[Mapping[str, str]], words: str, noun: str) -> Report:
    """Do work without operations, and report it as ``report_of`` does."""
    return report_of(await doing, words, noun)


async def left_to_workers(opening: Awaitable[Report], operations: Operations) -> Report:
    """Open a job's operations, and leave them to the workers."""
    report = await opening
    for outcome in report.outcomes:
        if outcome.operation:
            operations.leave(outcome.operation)
    return report


def failure(name: str, report: Report, subjects: Sequence[str] = ()) -> HermesError | None:
    """The error of a run that did not do all; ``None`` when it did."""
    again = Hint(("job", "run", name, *subjects), "again")
    if report.outcomes:
        return failure_of(report.outcomes, f"job {name}", hint=again)
    return PartlyDoneError(f"job {name}: {report.problem}", hint=again) if report.problem else None
