"""Cells as the registry has them; no state of a stack is read."""

from collections.abc import Sequence
from dataclasses import dataclass

from hermesops.agents.cells.selection import filter_cells
from hermesops.agents.cells.status import CellView, view
from hermesops.model.fleet.cell import Cell, parse_cell
from hermesops.store.registry import Registry


@dataclass(frozen=True)
class Cells:
    """Finds cells; nobody but the registry is asked."""

    registry: Registry

    def list(self, where: str = "") -> tuple[Cell, ...]:
        """The cells that a selector takes, by name; all of them when it is empty.

        Raises:
            UsageError: The selector is malformed, or names a cell that does not exist.
        """
        return filter_cells(self.registry.cells.list(), where)

    def get(self, name: str) -> Cell:
        """A cell by its name as an operator typed it.

        Raises:
            UsageError: It is no name of a cell, or there is none of that name.
        """
        return self.registry.cells.get(parse_cell(name))

    def named(self, names: Sequence[str]) -> tuple[Cell, ...]:
        """Several cells by their names, in this order.

        Raises:
            UsageError: As ``get``.
        """
        return tuple(self.get(name) for name in names)

    def view(self, name: str) -> CellView:
        """A cell with its machines, its operations, and who works on it.

        Raises:
            UsageError: As ``get``.
        """
        return view(self.registry, parse_cell(name))
