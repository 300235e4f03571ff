"""A run of a job that an operator asked for is an operation: it ends with the job's result, and may die anywhere."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from hermesops.automation.jobs.service import Jobs
from hermesops.errors import RefusedError, UsageError
from hermesops.model.operation import Operation, OperationKind, OperationStatus
from hermesops.store.operations.runner import Operations
from tests.support.fakes.parts import part
from tests.support.real.stores.registries import registry_at


class World:
    """A registry, and the job ``backups``, which does as a test says."""

    def __init__(self, folder: Path) -> None:
        self.registry = registry_at(f"sqlite:///{folder / 'registry.db'}")
        self.problems: Mapping[str, str] = {}
        self.runs = 0
        self.dies: Callable[[], None] = lambda: None
        self.operations = Operations(
            self.registry, {OperationKind.JOB_RUN: lambda *row: self.jobs().run_of(*row)}, lambda _: None
        )

    def jobs(self) -> Jobs:
        async def run() -> Mapping[str, str]:
            self.runs += 1
            self.dies()
            return self.problems

        base = Jobs.without_connection(part(without_jobs=""), self.registry, None)  # type: ignore[arg-type]  # unused
        parts: dict[str, Any] = {name: getattr(base, name) for name in base.__dataclass_fields__}
        nightly = part(due=lambda: ["ada"], run=run)
        return Jobs(**parts | {"operations": self.operations, "backups": part(nightly=nightly)})

    def open(self, reason: str = "r") -> Operation:
        return self.jobs().open_run("backups", reason=reason)

    def row(self, operation: Operation) -> Operation:
        return self.registry.operations.get(operation.id)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_it_ends_with_the_result_of_its_job(world: World) -> None:
    operation = world.open()
    assert (operation.subject, dict(operation.intent)) == ("job-run/backups", {"job": "backups", "reason": "r"})
    assert world.open("another").id == operation.id, "one of a job at a time"
    outcome = await world.operations.run(operation)
    assert (world.row(operation).status, world.row(operation).outcome) == (OperationStatus.DONE, outcome)
    assert world.registry.jobs.get("backups") is not None
    assert world.open().id != operation.id


async def test_it_has_failed_where_a_part_was_not_done(world: World) -> None:
    world.problems, operation = {"ada": "its disk is full", "bob": ""}, world.open()
    with pytest.raises(RefusedError, match="its disk is full"):
        await world.operations.run(operation)
    assert world.row(operation).status is OperationStatus.FAILED


async def test_a_worker_that_dies_leaves_it_to_the_next_one(world: World) -> None:
    operation = world.open()

    def die() -> None:
        raise _DeadError

    world.dies = die
    with pytest.raises(_DeadError):
        await world.operations.run(operation)
    assert not world.row(operation).status.has_ended
    world.dies = lambda: None
    await world.operations.run(world.row(operation))
    assert (world.row(operation).status, world.runs) == (OperationStatus.DONE, 2)


class _DeadError(BaseException):
    """The process died here."""


@pytest.mark.parametrize(
    ("name", "reason", "words"),
    [("none", "r", "no job 'none'"), ("backups", "", "say why"), ("backups", " ", "say why")],
)
def test_no_run_is_opened_of_no_job_or_without_a_reason(world: World, name: str, reason: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        world.jobs().open_run(name, reason=reason)
    assert world.registry.operations.list() == ()
