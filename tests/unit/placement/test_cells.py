"""Cells fill one after the other."""

from hermesops.model.ids import CellName
from hermesops.placement.cells import choose_cell

ONE, TWO, THREE = CellName("cell1"), CellName("cell2"), CellName("cell3")


def test_the_first_instance_opens_the_first_cell() -> None:
    assert choose_cell({}, size=40) == ONE


def test_the_fullest_cell_with_room_is_taken() -> None:
    assert choose_cell({ONE: 40, TWO: 12, THREE: 30}, size=40) == THREE


def test_full_cells_open_a_new_one() -> None:
    assert choose_cell({ONE: 40, TWO: 40}, size=40) == THREE
