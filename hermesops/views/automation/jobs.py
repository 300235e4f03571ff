"""Shapes of scheduled jobs and of their runs."""

from typing import TYPE_CHECKING

from hermesops.views.agents import costs
from hermesops.views.timestamps import timestamp

if TYPE_CHECKING:
    from hermesops.automation.jobs.runner import Report
    from hermesops.automation.jobs.service import JobPreview, JobState
    from hermesops.store.operations.outcomes import Outcome

_SUBJECTS = 20
"""Subjects that are named of a job's pending work."""


def job(state: "JobState") -> dict[str, object]:
    """A job with its last run, and when it runs next; ``due`` is null where its pending work is not known."""
    declared, last = state.job, state.last
    return {
        "job": declared.name,
        "what": declared.what,
        "by_workers": state.is_chosen,
        "every_s": int(declared.every.total_seconds()),
        "due": None if state.problem else len(state.due),
        "due_for": list(state.due[:_SUBJECTS]),
        "last": timestamp(last.began_at) if last else None,
        "ended": timestamp(last.ended_at) if last else None,
        "done": last.done if last else None,
        "problem": (last.problem or None) if last else None,
        "holder": state.holder or None,
        "next": _next(state),
    }


def preview(foreseen: "JobPreview") -> dict[str, object]:
    """A run by an operator that was not made; ``cost`` is null where it changes no bill."""
    cost = costs.change(foreseen.cost) if foreseen.cost else None
    return {**job(foreseen.state), "destroys": list(foreseen.destroys), "cost": cost}


def run(name: str, report: "Report") -> dict[str, object]:
    """A run of a job, with an outcome for each of its subjects."""
    outcomes = [_outcome(outcome) for outcome in report.outcomes]
    return {"job": name, "done": report.done, "problem": report.problem or None, "outcomes": outcomes}


def _outcome(outcome: "Outcome") -> dict[str, object]:
    return {
        "subject": outcome.subject,
        "operation_id": outcome.operation.id if outcome.operation else None,
        "outcome": outcome.done or None,
        "problem": outcome.problem or None,
    }


def _next(state: "JobState") -> str:
    if state.holder:
        return f"now, by {state.holder}"
    if not state.is_chosen:
        return "never by itself"
    if not state.is_late:
        return str(timestamp(state.earliest))
    return "by any worker" if state.due else "when due"
