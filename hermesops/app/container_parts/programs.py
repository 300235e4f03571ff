"""Pulumi programs of cells."""

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from hermesops.model.ids import MachineId, MachineName
from hermesops.model.plan import Plan

if TYPE_CHECKING:
    from hermesops.model.cell import CellSpec
    from hermesops.model.stack import StackRef


class CellPrograms:
    """Cells' programs; see ``cells.ports.Programs``."""

    def __init__(self, data_gb: Mapping[Plan, int]) -> None:
        self._data_gb = data_gb

    def program(self, spec: "CellSpec", released: frozenset[MachineName]) -> Callable[[], None]:
        """The program of one cell.

        Args:
            released: Machines whose protection it drops.
        """
        from hermesops.stacks.fleet import FleetProgram

        return FleetProgram(spec, released, data_gb=self._data_gb)

    def importing(self, spec: "CellSpec", ids: Mapping[MachineName, MachineId]) -> Callable[[], None]:
        """The program of one cell that names some of its machines by their ids; see ``cells.stack.imports``."""
        from hermesops.stacks.fleet import FleetProgram

        return FleetProgram(spec, imported=ids, data_gb=self._data_gb)

    def urns(self, stack: "StackRef", machines: Collection[MachineName]) -> tuple[str, ...]:
        """Pulumi's names of machines of a cell, with what they need."""
        from hermesops.stacks.fleet import urns_of

        return urns_of(stack, machines)
