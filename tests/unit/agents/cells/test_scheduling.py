"""Cells fill one after the other, each with what it takes."""

from collections.abc import Sequence
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from hermesops.agents.cells.scheduling import choose_cell
from hermesops.model.fleet.cell import Cell, Placement
from hermesops.model.ids import CellName
from hermesops.model.plan import Plan
from tests.support.suite.cases import each_case

LIGHT, HEAVY = Plan.LIGHT, Plan.HEAVY
REGIONS = ("hel1", "nbg1")
AT = datetime(2026, 1, 1, tzinfo=UTC)


def cell(number: int, machines: int, region: str = "hel1", only: Plan | None = None) -> Cell:
    return Cell(CellName(f"cell{number}"), region, only, machines, AT)


def choose(cells: Sequence[Cell], plan: Plan = LIGHT, region: str = "hel1", *, apart: bool = False) -> Placement:
    return choose_cell(cells, plan=plan, region=region, size=40, plans_apart=apart)


@each_case(
    ("cells", "chosen"),
    [
        ([], 1),
        ([cell(1, 40), cell(2, 12), cell(3, 30)], 3),
        ([cell(1, 40), cell(2, 40)], 3),
        ([cell(1, 39), cell(2, 12)], 1),
        ([cell(1, 41), cell(3, 0)], 3),
        ([cell(1, 3, "nbg1"), cell(2, 1)], 2),
        ([cell(1, 3, "nbg1")], 2),
        ([cell(1, 3, only=HEAVY), cell(2, 1)], 2),
        ([cell(1, 3, only=LIGHT), cell(2, 1)], 1),
    ],
    ids=[
        "the first opens the first",
        "the fullest with room",
        "full ones open a new one",
        "the last room counts",
        "one above its size is full",
        "another region's is left alone",
        "names are unique among regions",
        "one of the other plan is left alone",
        "one of this plan only will do",
    ],
)
def test_which_cell_is_chosen(cells: list[Cell], chosen: int) -> None:
    assert choose(cells).cell == f"cell{chosen}"


def test_a_new_cell_takes_every_plan_unless_plans_stand_apart() -> None:
    assert choose([]) == Placement(CellName("cell1"), "hel1", None)
    assert choose([], HEAVY, "nbg1", apart=True) == Placement(CellName("cell1"), "nbg1", HEAVY)


WISHES = st.lists(st.tuples(st.sampled_from(Plan), st.sampled_from(REGIONS), st.booleans()), max_size=60)


@given(requests=WISHES, size=st.integers(1, 5), leaving=st.lists(st.integers(0, 9), max_size=20))
def test_however_wishes_come_no_cell_is_overfilled_and_each_holds_what_it_takes(
    requests: list[tuple[Plan, str, bool]], size: int, leaving: list[int]
) -> None:
    cells: dict[CellName, Cell] = {}
    for number, (plan, region, apart) in enumerate(requests):
        place = choose_cell(tuple(cells.values()), plan=plan, region=region, size=size, plans_apart=apart)
        before = cells.get(place.cell, Cell(place.cell, place.region, place.only_plan, 0, AT))
        assert (before.region, before.only_plan) == (place.region, place.only_plan)
        assert before.region == region
        assert before.only_plan in {None, plan}
        assert before.machines < size
        cells[place.cell] = Cell(place.cell, before.region, before.only_plan, before.machines + 1, AT)
        if number in leaving:
            cells[place.cell] = before
    # Filled one after the other: of cells that take the same, only one has room.
    if not leaving:
        for like in {(cell.region, cell.only_plan) for cell in cells.values()}:
            roomy = [cell for cell in cells.values() if (cell.region, cell.only_plan) == like and cell.machines < size]
            assert len(roomy) <= 1
