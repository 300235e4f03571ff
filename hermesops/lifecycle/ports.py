"""What several works of lifecycle need from others; what one alone needs stands with it."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from hermesops.lifecycle.sight import Sight
from hermesops.model.ids import CellName, InstanceId, MachineId, MachineName
from hermesops.model.instance import Instance
from hermesops.model.operation import Operation, OperationKind


class Looks(Protocol):
    """The world, as far as it is looked at."""

    async def look(self, instance_id: InstanceId) -> Sight:
        """See one instance whole."""


class AwaitsGateways(Looks, Protocol):
    """The world, for whoever starts gateways."""

    async def await_gateway(self, instance: Instance, machine_id: MachineId) -> None:
        """Return once the gateway is healthy through the proxy."""


class HandsOver(AwaitsGateways, Protocol):
    """The world, for whoever hands machines their payload."""

    def payload_digest(self, instance: Instance) -> str:
        """Digest of what the instance's node should have been given."""

    async def personalise(self, instance: Instance, machine_id: MachineId) -> None:
        """Give the node its payload."""


class Cells(Protocol):
    """Stacks of cells."""

    async def holds(self, cell: CellName, machine: MachineName) -> bool:
        """Whether the cell's state has that machine."""

    async def bring(self, cell: CellName, *, still_wanted: Callable[[], Awaitable[bool]]) -> object:
        """Run the cell's stack for the rows as they are, unless that has become needless."""


class Intents(Protocol):
    """The registry, as far as intents are written into it."""

    def open_operation(
        self,
        kind: OperationKind,
        subject: str,
        *,
        intent: Mapping[str, object] | None = None,
        instance_id: InstanceId | None = None,
    ) -> Operation:
        """Write the intent, or find the unfinished one."""
