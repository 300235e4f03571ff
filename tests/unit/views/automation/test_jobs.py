"""Shapes of jobs; the rules of ``test_instances`` hold here too."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hermesops.automation.jobs.runner import Job, Report
from hermesops.automation.jobs.service import JobState
from hermesops.model.operation import JobRun
from hermesops.views.automation import jobs

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


async def nothing() -> Report:
    raise AssertionError


PRUNE = Job("prune", "take away", 60 * MINUTE, list, nothing, rest=timedelta(days=7))
LAST = JobRun(AT, AT + MINUTE, "2 pruned", "ada: no answer")
SHAPE = {
    "job": "prune",
    "what": "take away",
    "by_workers": True,
    "every_s": 3600,
    "due": 1,
    "due_for": ["ada"],
    "last": "2026-01-02T03:04:05+00:00",
    "ended": "2026-01-02T03:05:05+00:00",
    "done": "2 pruned",
    "problem": "ada: no answer",
    "holder": None,
    "next": "2026-01-02T03:10:05+00:00",
}


def test_a_chore_with_its_last_turn_and_its_next_one() -> None:
    resting = JobState(PRUNE, LAST, ("ada",), "", AT + 6 * MINUTE, is_late=False, is_chosen=True)
    assert jobs.job(resting) == SHAPE
    late = replace(resting, is_late=True)
    assert jobs.job(late)["next"] == "by any worker"
    idle = jobs.job(replace(late, due=()))
    assert (idle["next"], idle["due"]) == ("when due", 0)
    left = jobs.job(JobState(PRUNE, None, ("ada",), "", None, is_late=True, is_chosen=False))
    assert (left["next"], left["by_workers"], left["last"]) == ("never by itself", False, None)


def test_who_is_at_it_is_named() -> None:
    begun = JobRun(AT)
    held = jobs.job(JobState(PRUNE, begun, ("ada",), "here:1", AT + MINUTE, is_late=False, is_chosen=True))
    assert (held["next"], held["holder"], held["ended"]) == ("now, by here:1", "here:1", None)
