"""Chooses the cell for a new machine. Pure."""

from collections.abc import Sequence

from hermesops.model.fleet.cell import Cell, Placement
from hermesops.model.ids import CellName
from hermesops.model.plan import Plan


def choose_cell(cells: Sequence[Cell], *, plan: Plan, region: str, size: int, plans_apart: bool) -> Placement:
    """The fullest cell that takes the plan in that region and has room, else a new one.

    Filling cells one after the other keeps their number, and so the number of Pulumi runs over a fleet, small.

    Args:
        cells: All cells, of other regions too: names are unique among all.
        plans_apart: Whether a new cell takes this plan only; the row of an existing cell has its plan.
    """
    fitting = [cell for cell in cells if cell.region == region and cell.only_plan in {None, plan}]
    roomy = [cell for cell in fitting if cell.machines < size]
    if roomy:
        chosen = max(roomy, key=lambda cell: (cell.machines, cell.name))
        return Placement(chosen.name, chosen.region, chosen.only_plan)
    return Placement(_free_name(cells), region, plan if plans_apart else None)


def _free_name(cells: Sequence[Cell]) -> CellName:
    taken = {cell.name for cell in cells}
    number = 1
    while CellName(f"cell{number}") in taken:
        number += 1
    return CellName(f"cell{number}")
