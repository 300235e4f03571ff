"""Stacks of cells whose engine is loaded by the first use: a machine out of a warm pool needs none."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hermesops.model.ids import CellName, MachineId, MachineName
from hermesops.model.plan import Plan

if TYPE_CHECKING:
    from hermesops.cells.coalescing import StillWanted
    from hermesops.cells.stack.stacks import CellStacks
    from hermesops.model.cell import CellSpec
    from hermesops.model.stack import StackRef


@dataclass(frozen=True)
class LazyCells:
    """Stacks of cells."""

    load: "Callable[[], CellStacks]"

    async def holds(self, cell: CellName, machine: MachineName) -> bool:
        """Whether the cell's state has that machine."""
        return await self.load().holds(cell, machine)

    async def state(self, cell: CellName) -> Mapping[str, Any]:
        """A cell's state as Pulumi exports it; empty before its first run."""
        return await self.load().state(cell)

    async def apply(self, cell: CellName, *, still_wanted: "StillWanted") -> object:
        """Run the cell's stack for the rows as they are, unless that has become needless."""
        return await self.load().apply(cell, still_wanted=still_wanted)


@dataclass(frozen=True)
class CellPrograms:
    """Cells' programs; see ``cells.ports.Programs``."""

    data_gb: Mapping[Plan, int]

    def program(self, spec: "CellSpec", released: frozenset[MachineName]) -> Callable[[], None]:
        """The program of one cell."""
        from hermesops.stacks.fleet import FleetProgram

        return FleetProgram(spec, released, data_gb=self.data_gb)

    def importing(self, spec: "CellSpec", ids: Mapping[MachineName, MachineId]) -> Callable[[], None]:
        """The program of one cell that names some of its machines by their ids; see ``cells.stack.imports``."""
        from hermesops.stacks.fleet import FleetProgram

        return FleetProgram(spec, imported=ids, data_gb=self.data_gb)

    def urns(self, stack: "StackRef", machines: Collection[MachineName]) -> tuple[str, ...]:
        """Pulumi's names of machines of a cell, with what they need."""
        from hermesops.stacks.fleet import urns_of

        return urns_of(stack, machines)
