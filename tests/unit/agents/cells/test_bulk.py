"""Several cells at once: each has its own end, and the whole says which are not done."""

import asyncio

import pytest

from hermesops.agents.cells.bulk import CellRun, failure_of, run_cells
from hermesops.errors import HermesError, PartlyDoneError, RefusedError, UnavailableError
from hermesops.model.ids import CellName
from hermesops.model.operation import LeaseHeldError

CELLS = [CellName(f"cell{number}") for number in range(1, 8)]
AWAY = UnavailableError("no answer", hint="repeat")


async def test_cells_run_in_parallel_within_the_limit_and_keep_their_order() -> None:
    running, most = 0, 0

    async def work(cell: CellName) -> CellRun:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)  # noqa: TID251 - lets the others begin
        running -= 1
        if cell == "cell2":
            raise AWAY
        return CellRun(cell)

    runs = await run_cells(CELLS, work, parallel=3)
    assert [run.cell for run in runs] == CELLS
    assert [run.cell for run in runs if run.error] == ["cell2"]
    assert most == 3


async def test_a_bug_is_no_cells_end() -> None:
    async def work(_cell: CellName) -> CellRun:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await run_cells(CELLS, work, parallel=1)


async def test_a_cell_that_hangs_is_given_up_and_its_place_goes_to_the_next() -> None:
    async def work(cell: CellName) -> CellRun:
        if cell in CELLS[:2]:
            await asyncio.Event().wait()
        return CellRun(cell)

    async with asyncio.timeout(10):
        runs = await run_cells(CELLS, work, parallel=2, longest_s=0.1)
    assert [run.cell for run in runs if run.error] == CELLS[:2]
    assert all("not finished" in run.error.message for run in runs if run.error)


def ended(*errors: HermesError | None) -> list[CellRun]:
    return [CellRun(cell, error=error) for cell, error in zip(CELLS, errors, strict=False)]


def test_what_went_well_is_no_failure() -> None:
    assert failure_of(ended(None, None)) is None


def test_one_cells_error_stays_as_it_is() -> None:
    assert failure_of(ended(AWAY)) is AWAY


def test_some_that_failed_are_named_with_what_continues_them() -> None:
    failure = failure_of(ended(None, AWAY, LeaseHeldError("held by two")))
    assert isinstance(failure, PartlyDoneError)
    assert "2 of 3 cells failed: cell2: no answer; cell3: held by two" in failure.message
    assert str(failure.hint).endswith("cell2 cell3")


def test_all_that_failed_alike_are_one_failure_of_that_kind() -> None:
    failure = failure_of(ended(RefusedError("full"), LeaseHeldError("held")))
    assert isinstance(failure, RefusedError)
    assert failure.exit_code == 3
    assert "all 2 cells" in failure.message


def test_all_that_failed_each_in_its_way_may_have_changed_something() -> None:
    assert isinstance(failure_of(ended(AWAY, RefusedError("full"))), PartlyDoneError)
