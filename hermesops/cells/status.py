"""One cell as the registry has it: its row, its machines, and who works on it."""

from dataclasses import dataclass

from hermesops.cells.naming import lease_of
from hermesops.cells.workflow import subject_of
from hermesops.model.cell import Cell
from hermesops.model.fleet import Ordered
from hermesops.model.ids import CellName
from hermesops.model.operation import Operation
from hermesops.model.spare import Spare
from hermesops.registry import Registry


@dataclass(frozen=True)
class CellView:
    """A cell with what is around it.

    Attributes:
        machines: What its instances' rows order, those to be destroyed too.
        spares: What it has beside them.
        holder: Who runs its stack right now; empty when nobody does.
        operations: Runs of it that were asked for and have not ended.
    """

    cell: Cell
    machines: tuple[Ordered, ...]
    holder: str
    operations: tuple[Operation, ...]
    spares: tuple[Spare, ...] = ()


def view(registry: Registry, name: CellName) -> CellView:
    """See a cell.

    Raises:
        UsageError: There is none of that name.
    """
    cell = registry.cells.get(name)
    holder = next((lease.holder for lease in registry.leases.list() if lease.subject == lease_of(name)), "")
    waiting = tuple(one for one in registry.operations.list(unfinished=True) if one.subject == subject_of(name))
    return CellView(
        cell, tuple(registry.fleet.list_ordered(name)), holder, waiting, tuple(registry.spares.list(cell=name))
    )
