"""Of two runs of one job at once, the second follows the first; and jobs that delete ask first."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from hermesops.automation.jobs.runner import Job, Report, do_now, do_or_follow
from hermesops.errors import UnavailableError
from hermesops.model.operation import LeaseHeldError, job_subject
from hermesops.store.registry import Registry
from tests.support.fakes.instances import ADA
from tests.support.fakes.parts import part
from tests.support.real.stores.registries import registry_at
from tests.unit.automation.jobs.test_service import jobs


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    opened = registry_at(f"sqlite:///{tmp_path}/registry.db")
    yield opened
    opened.close()


class Dishes:
    """A job whose first run takes as long as the test says."""

    def __init__(self, problem: str = "") -> None:
        self.begun, self.may_end, self.runs = asyncio.Event(), asyncio.Event(), 0
        self._problem = problem

    async def do(self) -> Report:
        self.runs += 1
        run = self.runs
        self.begun.set()
        await self.may_end.wait()
        return Report(f"run {run}", self._problem)

    @property
    def job(self) -> Job:
        return Job("dishes", "wash", timedelta(minutes=1), list, self.do)


class Said:
    """Narration of the second run."""

    def __init__(self) -> None:
        self.lines, self.anything = list[str](), asyncio.Event()

    def line(self, text: str) -> None:
        self.lines.append(text)
        self.anything.set()


@pytest.mark.parametrize("problem", ["", "a plate broke"])
async def test_a_second_run_follows_the_first_and_has_its_result(registry: Registry, problem: str) -> None:
    dishes, response = Dishes(problem), Said()
    first = asyncio.create_task(do_now(dishes.job, registry))
    await dishes.begun.wait()
    second = asyncio.create_task(do_or_follow(dishes.job, registry, response.line))
    await response.anything.wait()
    dishes.may_end.set()
    assert await second == await first == Report("run 1", problem)
    assert dishes.runs == 1
    assert len(response.lines) == 1
    assert response.lines[0].startswith("follows: job dishes is being worked on by process ")
    assert " since 2" in response.lines[0]


async def test_a_run_about_named_subjects_runs_after_the_one_of_another_process(registry: Registry) -> None:
    dishes, response = Dishes(), Said()
    first = asyncio.create_task(do_now(dishes.job, registry))
    await dishes.begun.wait()
    second = asyncio.create_task(do_or_follow(dishes.job, registry, response.line, is_whole=False))
    await response.anything.wait()
    dishes.may_end.set()
    assert (await first, await second) == (Report("run 1"), Report("run 2"))


async def test_a_run_that_ended_before_is_not_the_one_that_is_followed(registry: Registry) -> None:
    dishes = Dishes()
    dishes.may_end.set()
    await do_now(dishes.job, registry)
    lease = registry.leases.take(job_subject("dishes"), "elsewhere:1:a")
    second = asyncio.create_task(do_or_follow(dishes.job, registry, lambda _: registry.leases.release(lease)))
    assert await second == Report("run 2"), "its lease ended without a run"


async def test_without_following_the_second_is_refused_with_process_and_begin(registry: Registry) -> None:
    dishes = Dishes()
    first = asyncio.create_task(do_now(dishes.job, registry))
    await dishes.begun.wait()
    with pytest.raises(LeaseHeldError, match=r"job dishes .* by process \d+ on .* since 2\d{3}-") as refused:
        await do_now(dishes.job, registry)
    assert refused.value.exit_code == UnavailableError.exit_code
    dishes.may_end.set()
    await first


@pytest.mark.parametrize(
    ("name", "lines", "consent"),
    [
        ("prune", ("ada: its backups that no rule keeps are deleted",), "deletes backups of 1 agent"),
        ("ended", (f"ada ({ADA.id}): all its backups are deleted",), "deletes all backups of 1 ended agent"),
    ],
)
async def test_jobs_that_delete_backups_list_them_and_note_the_reason(
    registry: Registry, name: str, lines: tuple[str, ...], consent: str
) -> None:
    reasons = list[str]()

    async def delete(_subject: object, *, why: str) -> None:
        reasons.append(why)

    deleting = part(due=lambda: [ADA], prune=delete, erase=delete)
    all_jobs = jobs(registry=registry, backups=part(pruning=deleting, ended=deleting))
    manual = all_jobs.prepare(name, reason="no room")
    assert (manual.destroys, manual.consent) == (lines, consent)
    await all_jobs.run(name, manual, part())
    await all_jobs.named(name).do()
    assert reasons == ["no room", ""]


async def test_nothing_due_is_nothing_to_ask_about(registry: Registry) -> None:
    nothing = part(due=list)
    manual = jobs(registry=registry, backups=part(pruning=nothing, ended=nothing)).prepare("prune")
    assert replace(manual, consent="").destroys == ()
