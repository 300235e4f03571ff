"""Chooses the cell for a new instance. Pure."""

from collections.abc import Mapping

from hermesops.model.ids import CellName


def choose_cell(population: Mapping[CellName, int], *, size: int) -> CellName:
    """The fullest cell that has room, else the name of a new one.

    Filling cells one after the other keeps their number, and so the number of Pulumi runs over a fleet, small.

    Args:
        population: Machines of each cell of the wanted region.
        size: Machines a cell holds at most.
    """
    roomy = {name: count for name, count in population.items() if count < size}
    if roomy:
        return max(roomy, key=lambda name: (roomy[name], name))
    taken = set(population)
    number = 1
    while CellName(f"cell{number}") in taken:
        number += 1
    return CellName(f"cell{number}")
