"""What pools need of other packages: leases, machines, stacks of cells."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from hermesops.agents.cells.coalescing import StillWanted
from hermesops.model.health import NodeState
from hermesops.model.ids import CellName, MachineId, MachineName
from hermesops.model.operation import Lease
from hermesops.model.unassigned_machine import UnassignedMachine
from hermesops.vendor.justavps.wire import Machine


class Machines(Protocol):
    """Machines, as far as a pool needs them."""

    async def listed(self) -> Mapping[MachineName, Machine]:
        """The vendor's list, by name; of several of a name the newest."""

    async def node(self, machine_id: MachineId) -> NodeState | None:
        """What hermes-node says; ``None`` while it does not answer."""

    async def await_machine(self, row: UnassignedMachine) -> None:
        """Return once it is ready and hermes-node answers."""

    async def faults(self, machine_id: MachineId) -> Sequence[str]:
        """Failed checks of a machine without a user."""

    async def warm(self, machine_id: MachineId, lease: Lease) -> str:
        """Start its gateway with a placeholder; the API key that was made there, empty where it stays cold."""


class Cells(Protocol):
    """The stacks of cells."""

    async def apply(self, cell: CellName, *, still_wanted: StillWanted) -> object:
        """Run the cell's stack."""

    async def held(self, cell: CellName) -> frozenset[MachineName]:
        """The machines in the cell's state."""
