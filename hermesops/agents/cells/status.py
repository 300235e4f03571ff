"""One cell as the registry has it: its row, its machines, leases and operations."""

from dataclasses import dataclass

from hermesops.agents.cells.stack.state import lease_of
from hermesops.agents.cells.workflow import subject_of
from hermesops.model.fleet.cell import Cell
from hermesops.model.fleet.overview import Ordered
from hermesops.model.fleet.unassigned_machine import UnassignedMachine
from hermesops.model.ids import CellName
from hermesops.model.operation import Operation
from hermesops.store.registry import Registry


@dataclass(frozen=True)
class CellView:
    """A cell with its machines and operations.

    Attributes:
        machines: Machines of its instances, marked ones included.
        holder: Holder of the lease of its stack; empty for none.
        operations: Its unfinished operations.
    """

    cell: Cell
    machines: tuple[Ordered, ...]
    holder: str
    operations: tuple[Operation, ...]
    unassigned: tuple[UnassignedMachine, ...] = ()


def view(registry: Registry, name: CellName) -> CellView:
    """Read a cell.

    Raises:
        UsageError: There is none of that name.
    """
    cell = registry.cells.get(name)
    holder = next((lease.holder for lease in registry.leases.list() if lease.subject == lease_of(name)), "")
    waiting = tuple(
        operation for operation in registry.operations.list(unfinished=True) if operation.subject == subject_of(name)
    )
    return CellView(
        cell, tuple(registry.fleet.list_ordered(name)), holder, waiting, tuple(registry.unassigned.list(cell=name))
    )
