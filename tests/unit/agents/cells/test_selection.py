"""Which cells are meant: those that were named in some way, and never all of them by default."""

from datetime import UTC, datetime

import pytest

from hermesops.agents.cells.selection import filter_cells, select_cells
from hermesops.errors import UsageError
from hermesops.model.fleet.cell import Cell
from hermesops.model.ids import CellName
from hermesops.model.plan import Plan
from tests.support.suite.cases import each_case

AT = datetime(2026, 1, 1, tzinfo=UTC)
CELLS = (
    Cell(CellName("cell1"), "hel1", None, 3, AT),
    Cell(CellName("cell2"), "nbg1", Plan.HEAVY, 0, AT),
    Cell(CellName("cell3"), "nbg1", Plan.LIGHT, 40, AT),
)


def names(*typed: str, where: str = "", everything: bool = False) -> list[str]:
    return [cell.name for cell in select_cells(CELLS, names=typed, where=where, everything=everything)]


def test_cells_are_meant_by_name_once() -> None:
    assert names("cell3", "cell1", "cell3") == ["cell1", "cell3"]


def test_cells_are_meant_by_what_they_are() -> None:
    assert names(where="region=nbg1") == ["cell2", "cell3"]
    assert names(where="plan=light") == ["cell1", "cell3"]
    assert names(where="plan=heavy,region=nbg1") == ["cell2"]
    assert names(where="cell=cell1,cell=cell2") == ["cell1", "cell2"]


def test_all_are_meant_only_in_so_many_words() -> None:
    assert names(everything=True) == ["cell1", "cell2", "cell3"]
    assert filter_cells(CELLS, "") == CELLS


@each_case(
    ("typed", "where", "everything", "message"),
    [
        ((), "", False, "missing CELL"),
        (("cell1",), "", True, "missing CELL"),
        ((), "region=hel1", True, "missing CELL"),
        (("cell1",), "region=hel1", False, "missing CELL"),
        (("cell1", "cell9", "cell8"), "", False, "no cell 'cell8'; nearest: cell3, cell2, cell1"),
        (("../cell1",), "", False, "no name of a cell"),
        ((), "region=hil", False, "selects no cell"),
        ((), "colour=red", False, "no field 'colour'"),
    ],
)
def test_what_means_no_cell_is_refused(typed: tuple[str, ...], where: str, message: str, *, everything: bool) -> None:
    with pytest.raises(UsageError, match=message):
        names(*typed, where=where, everything=everything)


def test_no_cells_are_not_all_cells() -> None:
    with pytest.raises(UsageError, match="no cells yet"):
        select_cells((), names=(), where="", everything=True)
