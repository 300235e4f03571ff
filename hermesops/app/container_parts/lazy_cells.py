"""Stacks of cells whose engine is loaded by the first use: a machine out of a warm pool needs none."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from hermesops.cells.coalescing import StillWanted
from hermesops.model.ids import CellName, MachineName

if TYPE_CHECKING:
    from hermesops.cells.stack.stacks import CellStacks


class LazyCells:
    """Stacks of cells."""

    def __init__(self, load: "Callable[[], CellStacks]") -> None:
        self._load = load

    async def holds(self, cell: CellName, machine: MachineName) -> bool:
        """Whether the cell's state has that machine."""
        return await self._load().holds(cell, machine)

    async def state(self, cell: CellName) -> Mapping[str, Any]:
        """A cell's state as Pulumi exports it; empty before its first run."""
        return await self._load().state(cell)

    async def apply(self, cell: CellName, *, still_wanted: StillWanted) -> object:
        """Run the cell's stack for the rows as they are, unless that has become needless."""
        return await self._load().apply(cell, still_wanted=still_wanted)
