"""One cell as the registry has it: its row, its machines, leases and operations."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hermesops.cells.stack.state import lease_of
from hermesops.cells.workflow import subject_of
from hermesops.model.cell import Cell
from hermesops.model.fleet import Ordered
from hermesops.model.ids import CellName
from hermesops.model.operation import Lease, Operation
from hermesops.model.spare import Spare


@dataclass(frozen=True)
class CellView:
    """A cell with its machines and operations.

    Attributes:
        machines: Those of its instances, also those to be deleted.
        spares: Its machines without an instance.
        holder: Who holds the lease of its stack; empty for nobody.
        operations: Its unfinished operations.
    """

    cell: Cell
    machines: tuple[Ordered, ...]
    holder: str
    operations: tuple[Operation, ...]
    spares: tuple[Spare, ...] = ()


class Rows(Protocol):
    """What is read of the registry."""

    def get_cell(self, name: CellName) -> Cell:
        """One cell."""

    def list_ordered(self, cell: CellName | None = None) -> Sequence[Ordered]:
        """The living instances of a cell with their machines."""

    def list_spares(self, *, cell: CellName) -> Sequence[Spare]:
        """The machines of a cell beside those of instances."""

    def list_leases(self) -> Sequence[Lease]:
        """The leases that are held now."""

    def list_operations(self, *, unfinished: bool = False) -> Sequence[Operation]:
        """Operations."""


def view(rows: Rows, name: CellName) -> CellView:
    """Read a cell.

    Raises:
        UsageError: There is none of that name.
    """
    cell = rows.get_cell(name)
    holder = next((lease.holder for lease in rows.list_leases() if lease.subject == lease_of(name)), "")
    waiting = tuple(one for one in rows.list_operations(unfinished=True) if one.subject == subject_of(name))
    return CellView(cell, tuple(rows.list_ordered(name)), holder, waiting, tuple(rows.list_spares(cell=name)))
