"""Runs of jobs that an operator asks for: what they are about, what is said before, and how they end."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hermesops.agents.instances.requests.expiry import Due
from hermesops.automation.jobs.reports import failure
from hermesops.errors import PartlyDoneError, UnavailableError, UsageError
from hermesops.model.ids import CellName, MachineName
from hermesops.model.operation import Operation
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


class Pools:
    """Two cells: ``cell1`` lacks machines, and of ``cell2`` an operator thinks so."""

    short = staticmethod(lambda: [CellName("cell1")])

    def __init__(self, broken: str = "") -> None:
        self._broken, self.opens = broken, list[bool]()

    def cells(self, names: Sequence[str], *, opening: bool) -> list[Any]:
        self.opens.append(opening)
        return [part(name=name) for name in names or ("cell1", "cell2")]

    def open(self, cell: str) -> Any:  # noqa: ANN401 - stands for an operation
        if cell == self._broken:
            raise UnavailableError(f"{cell} is away")
        return part(id=f"fill of {cell}")


async def ended(operation: Operation) -> str:
    return f"{operation.id}: done"


@pytest.mark.parametrize(("named", "cells"), [((), ["cell1", "cell2"]), (("cell2",), ["cell2"])], ids=str)
async def test_an_operator_fills_all_pools_or_those_of_cells_and_waits(
    registry: Registry, named: tuple[str, ...], cells: list[str]
) -> None:
    pools = Pools()
    all_jobs = jobs(registry=registry, pools=pools)
    prepared = all_jobs.prepare("pools", named)
    assert pools.opens == [False], "a preparation opens no cell"
    report = await all_jobs.run("pools", prepared, ended)
    assert pools.opens == [False, True]
    assert [(outcome.subject, outcome.done) for outcome in report.outcomes] == [
        (cell, f"fill of {cell}: done") for cell in cells
    ]
    assert (report.done, report.problem) == ("; ".join(f"fill of {cell}: done" for cell in cells), "")
    assert failure("pools", report) is None
    assert registry.jobs.get("pools") is not None


async def test_a_pool_that_fails_keeps_no_other_from_being_filled(registry: Registry) -> None:
    all_jobs = jobs(registry=registry, pools=Pools(broken="cell1"))
    report = await all_jobs.run("pools", all_jobs.prepare("pools"), ended)
    assert (report.done, report.problem) == ("fill of cell2: done", "cell1: cell1 is away")
    assert type(failure("pools", report)) is PartlyDoneError
    report = await all_jobs.run("pools", all_jobs.prepare("pools", ["cell1"]), ended)
    assert type(failure("pools", report, ["cell1"])) is UnavailableError


async def test_an_operation_that_fails_is_a_failure_of_the_run(registry: Registry) -> None:
    async def failing(operation: Operation) -> str:
        if operation.id == "fill of cell1":
            raise UnavailableError("no machine got ready")
        return await ended(operation)

    all_jobs = jobs(registry=registry, pools=Pools())
    report = await all_jobs.run("pools", all_jobs.prepare("pools"), failing)
    assert str(failure("pools", report)) == "job pools: 1 of 2 not done: cell1: no machine got ready"


def test_a_job_that_is_done_for_all_that_is_due_takes_no_names() -> None:
    with pytest.raises(UsageError, match="for everything that is due"):
        jobs().prepare("backups", ["ada"])


async def test_what_is_destroyed_is_said_before_and_nothing_that_falls_due_later(registry: Registry) -> None:
    due = Due((replace(ADA, machine_name=MachineName("m-ada")),), (part(name="m-left"),))
    due_lists, applied = list[Due](), list[Due]()

    def now_due() -> Due:
        due_lists.append(due)
        return due if len(due_lists) == 1 else Due((), ())

    async def apply(given: Due) -> Mapping[str, str]:
        applied.append(given)
        return {"ada": "", "m-left": "no answer"}

    all_jobs = jobs(registry=registry, upkeep=part(due=now_due, apply=apply))
    manual = all_jobs.prepare("lifecycle")
    assert manual.destroys == (
        "ada: its days of grace are over; machine m-ada is destroyed",
        "m-left: unassigned; it will be destroyed",
    )
    report = await all_jobs.run("lifecycle", manual, ended)
    assert applied == [due]
    assert [(outcome.subject, outcome.problem) for outcome in report.outcomes] == [("ada", ""), ("m-left", "no answer")]
