"""The machines of warm pools as the registry has them."""

from collections.abc import Collection
from dataclasses import dataclass

from hermesops.model.fleet.cell import parse_cell
from hermesops.model.fleet.unassigned_machine import MachineRole, UnassignedMachine
from hermesops.store.registry import Registry


@dataclass(frozen=True)
class PoolMachines:
    """Finds machines of warm pools; nobody but the registry is asked."""

    registry: Registry

    def list(self, cells: Collection[str] = ()) -> tuple[UnassignedMachine, ...]:
        """The machines of the pools of these cells, by name as an operator typed it; of all without any.

        Raises:
            UsageError: There is no cell of a name.
        """
        named = {self.registry.cells.get(parse_cell(name)).name for name in cells}
        warm = self.registry.unassigned.list(role=MachineRole.WARM)
        return tuple(row for row in warm if not named or row.cell in named)
