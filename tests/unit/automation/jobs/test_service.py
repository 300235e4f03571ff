"""Scheduled jobs: which workers do them, what is due, and what their reports say."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hermesops.automation.jobs.reports import failure
from hermesops.automation.jobs.runner import Job, Report
from hermesops.automation.jobs.service import Jobs
from hermesops.errors import PartlyDoneError, UsageError
from hermesops.model.ids import CellName
from hermesops.model.operation import JobRun, Lease
from hermesops.settings.fields import Settings
from hermesops.store.operations.outcomes import Outcome
from tests.support.fakes.instances import ADA
from tests.support.fakes.parts import part

NOW, DAY = datetime(2026, 1, 1, tzinfo=UTC), timedelta(days=1)


def jobs(**parts: Any) -> Jobs:  # noqa: ANN401 - each stands for a service
    settings = Settings.model_validate({"without_jobs": parts.pop("without", "")})
    names = (
        "backups",
        "drills",
        "rollouts",
        "pools",
        "pool_previews",
        "upkeep",
        "proxy_tokens",
        "model_tokens",
        "operations",
        "billing",
        "user_requests",
        "operator_requests",
        "settings_copying",
        "plan_statements",
        "metering",
        "sweep",
    )
    parts.setdefault("connections", lambda: None)
    return Jobs(settings=settings, registry=parts.pop("registry", part()), **({name: part() for name in names} | parts))


def backups(due: list[Any], problems: Mapping[str, str]) -> Any:  # noqa: ANN401 - stands for Backups
    async def run() -> Mapping[str, str]:
        return problems

    return part(nightly=part(due=lambda: due, run=run))


def test_workers_do_all_jobs_but_those_that_settings_name() -> None:
    every = [job.name for job in jobs().chosen()]
    assert every == list(jobs().all())
    assert [job.name for job in jobs(without="pools, drill").chosen()] == [
        name for name in every if name not in {"pools", "drill"}
    ]
    assert jobs(without="all").chosen() == []
    with pytest.raises(UsageError, match="pols"):
        jobs(without="pols").chosen()


async def test_a_report_counts_what_was_done_and_names_what_was_not() -> None:
    job = jobs(backups=backups([ADA], {"ada": "", "bob": "no answer"})).named("backups")
    assert list(job.due()) == ["ada"]
    report = await job.do()
    assert (report.done, report.problem) == ("1 agent backed up", "bob: no answer")
    partly = failure("backups", report)
    assert isinstance(partly, PartlyDoneError)
    assert (str(partly), str(partly.hint)) == (
        "job backups: 1 of 2 not done: bob: no answer",
        "hermesops job run backups again",
    )
    assert failure("backups", Report("2 agents backed up", outcomes=(Outcome("ada", done="done"),))) is None


@pytest.mark.parametrize(
    ("last", "is_possible", "is_due"),
    [
        (None, True, True),
        (None, False, False),
        (JobRun(NOW, NOW, "done", ""), True, False),
        (JobRun(NOW, NOW, "", "no answer"), True, True),
        (JobRun(NOW - DAY, NOW - DAY - timedelta(seconds=1), "done", ""), True, True),
    ],
    ids=["never", "without a key", "today", "failed", "yesterday"],
)
def test_subscriptions_are_swept_once_a_day(last: JobRun | None, *, is_possible: bool, is_due: bool) -> None:
    registry = part(jobs=part(get=lambda _: last), now=lambda: NOW)
    assert bool(jobs(registry=registry, sweep=part(is_possible=is_possible)).named("billing-sweep").due()) is is_due


async def test_one_erased_backup_that_fails_does_not_keep_others() -> None:
    async def erase(instance: Any, **_reason: str) -> None:  # noqa: ANN401 - stands for an instance
        if instance.id == "b":
            raise UsageError("cannot")

    ended = part(due=lambda: [part(id="a"), part(id="b")], erase=erase)
    report = await jobs(backups=part(ended=ended)).named("ended").do()
    assert (report.done, report.problem) == ("backups of 1 ended agent erased", "b: cannot")


async def test_short_pools_and_due_drills_are_left_to_the_workers() -> None:
    left: list[str] = []

    async def open_drill(instance: Any, *, why: str) -> str:  # noqa: ANN401 - stands for an instance
        return f"drill of {instance.title}: {why}"

    pools = part(short=lambda: [CellName("cell1")], open=lambda cell: f"fill of {cell}")
    drills = part(due=lambda: ADA, open=open_drill)
    all_jobs = jobs(pools=pools, drills=drills, operations=part(leave=left.append))
    assert (await all_jobs.named("pools").do()).done == "1 pool left to be filled: cell1"
    assert "newest backup of ada" in (await all_jobs.named("drill").do()).done
    assert left == ["fill of cell1", "drill of ada: weekly"]


async def test_no_drill_is_due_when_nobody_has_a_backup() -> None:
    job = jobs(drills=part(due=lambda: None)).named("drill")
    assert list(job.due()) == []
    assert (await job.do()).done == "no drill is due"


async def nothing() -> Report:
    raise AssertionError


def test_a_job_rests_after_its_last_run_and_names_the_process_that_runs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now, rest = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), timedelta(days=7)
    last = JobRun(now - timedelta(days=6), now - timedelta(days=6), "2 pruned")
    runs = {"fresh": JobRun(now - timedelta(days=8), now, "done"), "resting": last}
    registry = part(
        leases=part(list=lambda: [Lease("job/held", "here:1", 1, 1, now)]),
        jobs=part(get=runs.get),
        now=lambda: now,
    )
    jobs_by_name = {
        name: Job(name, "-", rest, lambda: ["ada"], nothing, rest=rest) for name in ("fresh", "resting", "held")
    }
    monkeypatch.setattr(Jobs, "all", lambda _: jobs_by_name)
    fresh, resting, held = jobs(registry=registry, without="held").states()
    assert (fresh.due, fresh.is_late, fresh.is_chosen, fresh.holder) == (("ada",), True, True, "")
    assert (resting.is_late, resting.earliest, resting.last) == (False, now + timedelta(days=1), last)
    assert (held.holder, held.is_chosen, held.is_late) == ("here:1", False, True)


def test_a_failure_does_not_hold_what_users_wait_for() -> None:
    """A restart of the database fails every job that runs at that moment."""
    waited_for = ("operator-requests", "billing", "user-requests", "settings-copies", "statements", "connections")
    rests = {name: job.retry.total_seconds() for name, job in jobs().all().items() if name in waited_for}
    assert rests == {**dict.fromkeys(waited_for, 10.0), "statements": 60.0}
