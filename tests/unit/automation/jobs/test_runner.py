"""What falls due is done by one worker at a time, and what fails neither spins nor stops anything else."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest

from hermesops.automation.jobs.runner import AFTER_DEATH, RETRY, Job, JobScheduler, Report, do_now, may_begin_at
from hermesops.errors import UnavailableError
from hermesops.model.operation import JobRun, Lease, LeaseHeldError
from tests.support.fakes.registry import FakeRegistry

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


class Rows(FakeRegistry):
    """Turns and leases in memory, by a clock that each look turns on."""

    def __init__(self) -> None:
        self.at = NOON
        self.turns: dict[str, JobRun] = {}
        self.held: dict[str, Lease] = {}

    def now(self) -> datetime:
        return self.at

    def jobs_get(self, name: str) -> JobRun | None:
        return self.turns.get(name)

    def jobs_begin(self, name: str, *, lease: Lease) -> None:
        assert self.held[f"job/{name}"] == lease
        self.turns[name] = JobRun(self.at)

    def jobs_end(self, name: str, *, done: str, problem: str, lease: Lease) -> None:
        assert self.held[f"job/{name}"] == lease
        self.turns[name] = JobRun(self.turns[name].began_at, self.at, done, problem)

    def leases_take(self, subject: str, holder: str, *, over: str = "") -> Lease:
        if subject in self.held and self.held[subject].holder != over:
            raise LeaseHeldError(f"{subject} is being worked on by {self.held[subject].holder}")
        self.held[subject] = Lease(subject, holder, 1, 1, NOON)
        return self.held[subject]

    def leases_renew(self, held: Sequence[Lease]) -> Collection[str]:  # noqa: ARG002 - all are still held
        return ()

    def leases_release(self, lease: Lease) -> None:
        self.held.pop(lease.subject)


@dataclass
class Dishes:
    """Something to do that comes back when it is told to."""

    dirty: list[str] = field(default_factory=lambda: ["plate"])
    washed: int = 0
    failing: Exception | None = None
    seen: asyncio.Event = field(default_factory=asyncio.Event)
    going_on: asyncio.Event | None = None

    def due(self) -> list[str]:
        return list(self.dirty)

    async def do(self) -> Report:
        self.washed += 1
        self.seen.set()
        if self.going_on:
            await self.going_on.wait()
        if self.failing:
            raise self.failing
        self.dirty.clear()
        return Report("washed")

    def job(self, name: str = "dishes", rest: timedelta = timedelta()) -> Job:
        return Job(name, "wash them", MINUTE, self.due, self.do, rest=rest)


@pytest.mark.parametrize(
    ("last", "from_when"),
    [
        (None, None),
        (JobRun(NOON), NOON + AFTER_DEATH),
        (JobRun(NOON, NOON + MINUTE, "done"), NOON + timedelta(days=7)),
        (JobRun(NOON, NOON + MINUTE, "", "failed"), NOON + MINUTE + RETRY),
    ],
)
def test_what_went_wrong_is_begun_again_sooner_than_what_went_well_but_not_at_once(
    last: JobRun | None, from_when: datetime | None
) -> None:
    assert may_begin_at(last, timedelta(days=7)) == from_when


def test_a_job_for_which_users_wait_rests_as_long_after_a_failure_as_it_says() -> None:
    failed = JobRun(NOON, NOON + MINUTE, "", "the database was away")
    assert may_begin_at(failed, timedelta(), timedelta(seconds=10)) == NOON + MINUTE + timedelta(seconds=10)


@dataclass
class Clock:
    """Lets a ``JobScheduler`` look so many times, one minute apart."""

    rows: Rows
    jobs: JobScheduler

    async def run(self, looks: int) -> None:
        for _ in range(looks):
            self.jobs._start_due()
            while self.jobs._turns:
                await asyncio.gather(*self.jobs._turns.values())
                await asyncio.sleep(0)  # noqa: TID251 - lets what follows a task run
            self.rows.at += MINUTE


async def test_it_is_done_when_it_is_due_and_not_otherwise() -> None:
    rows, dishes = Rows(), Dishes()
    clock = Clock(rows, JobScheduler([dishes.job()], rows, grace_s=1))
    await clock.run(10)
    assert dishes.washed == 1
    assert rows.turns["dishes"] == JobRun(NOON, NOON, "washed")
    dishes.dirty.append("cup")
    await clock.run(3)
    assert dishes.washed == 2
    assert rows.held == {}


async def test_what_the_rows_do_not_tell_rests() -> None:
    rows, dishes = Rows(), Dishes()
    clock = Clock(rows, JobScheduler([dishes.job(rest=timedelta(minutes=20))], rows, grace_s=1))
    for _ in range(4):
        dishes.dirty.append("cup")
        await clock.run(10)
    assert dishes.washed == 2


@pytest.mark.parametrize("failure", [UnavailableError("no water"), ZeroDivisionError("a bug")])
async def test_one_that_fails_is_told_and_does_not_spin_and_stops_no_other(failure: Exception) -> None:
    rows, broken, fine = Rows(), Dishes(failing=failure), Dishes()
    clock = Clock(rows, JobScheduler([broken.job("broken"), fine.job("fine")], rows, grace_s=1))
    await clock.run(16)
    assert str(failure) in rows.turns["broken"].problem
    assert (broken.washed, fine.washed) == (4, 1)
    broken.failing = None
    await clock.run(6)
    assert rows.turns["broken"].problem == ""


async def test_one_worker_at_a_time_does_it_and_another_follows_one_that_died() -> None:
    rows, dishes = Rows(), Dishes()
    others = rows.leases_take("job/dishes", "another computer")
    rows.turns["dishes"] = JobRun(NOON)
    clock = Clock(rows, JobScheduler([dishes.job()], rows, grace_s=1))
    await clock.run(10)
    assert dishes.washed == 0
    rows.leases_release(others)
    await clock.run(2)
    assert dishes.washed == 1


async def test_told_to_stop_it_waits_for_what_is_under_way() -> None:
    rows, dishes = Rows(), Dishes(going_on=asyncio.Event())
    jobs = JobScheduler([dishes.job()], rows, grace_s=60)
    running = asyncio.create_task(jobs.run())
    await dishes.seen.wait()
    jobs.stop()
    assert dishes.going_on
    dishes.going_on.set()
    await running
    assert rows.turns["dishes"].done == "washed"


async def test_told_twice_it_cuts_short_and_the_next_one_begins_again() -> None:
    rows, dishes = Rows(), Dishes(going_on=asyncio.Event())
    jobs = JobScheduler([dishes.job()], rows, grace_s=60)
    running = asyncio.create_task(jobs.run())
    await dishes.seen.wait()
    jobs.stop()
    jobs.stop()
    await running
    assert rows.turns["dishes"].ended_at is None
    dishes.going_on = None
    assert await do_now(dishes.job(), rows) == Report("washed")


async def test_by_hand_it_is_done_whenever_it_was_done_last_unless_somebody_is_at_it() -> None:
    rows, dishes = Rows(), Dishes()
    assert await do_now(dishes.job(rest=timedelta(days=7)), rows) == Report("washed")
    assert await do_now(dishes.job(rest=timedelta(days=7)), rows) == Report("washed")
    rows.leases_take("job/dishes", "another computer")
    with pytest.raises(LeaseHeldError, match="another computer"):
        await do_now(dishes.job(), rows)


async def test_a_turn_that_does_not_end_is_cut_short_and_another_may_begin() -> None:
    rows, dishes = Rows(), Dishes(going_on=asyncio.Event())
    endless = replace(dishes.job(), longest=timedelta(milliseconds=50))
    with pytest.raises(UnavailableError, match=r"dishes took longer than .* and was cut short"):
        async with asyncio.timeout(30):
            await do_now(endless, rows)
    assert "cut short" in rows.turns["dishes"].problem
    assert not rows.held
