"""Shapes of what ``hermesops job`` prints; the rules of ``render`` hold here too."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from hermesops.cli.views.shapes import moment
from hermesops.model.operation import JobRun, job_subject

if TYPE_CHECKING:
    from hermesops.jobs.runner import Job


def job(
    one: "Job",
    last: JobRun | None,
    due: Sequence[str],
    leases: Mapping[str, str],
    *,
    now: datetime,
    is_chosen: bool,
) -> dict[str, object]:
    """A job with its last turn, and when its next one may be.

    Args:
        one: Which.
        last: Its last turn.
        due: What is due.
        leases: Who holds what.
        now: The time.
        is_chosen: Whether workers of this environment do it.
    """
    from hermesops.jobs.runner import may_begin_at

    holder = leases.get(job_subject(one.name))
    earliest = may_begin_at(last, one.rest)
    is_late = earliest is None or earliest <= now
    return {
        "job": one.name,
        "what": one.what,
        "by_workers": is_chosen,
        "every_s": int(one.every.total_seconds()),
        "due": len(due),
        "due_for": list(due[:20]),
        "last": moment(last.began_at) if last else None,
        "ended": moment(last.ended_at) if last else None,
        "done": last.done if last else None,
        "problem": (last.problem or None) if last else None,
        "holder": holder,
        "next": _next(holder, earliest, is_late=is_late, is_due=bool(due), is_chosen=is_chosen),
    }


def _next(holder: str | None, earliest: datetime | None, *, is_late: bool, is_due: bool, is_chosen: bool) -> str:
    if holder:
        return f"now, by {holder}"
    if not is_chosen:
        return "never by itself"
    if not is_late:
        return str(moment(earliest))
    return "when a worker looks" if is_due else "when something is due"
