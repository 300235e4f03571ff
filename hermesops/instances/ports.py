"""What several works of lifecycle need from others; what one alone needs stands with it."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from hermesops.instances.observation import Observation
from hermesops.model.backup import Backup
from hermesops.model.ids import CellName, InstanceId, MachineId, MachineName
from hermesops.model.instance import Instance
from hermesops.model.state import State


class Observes(Protocol):
    """The world, as far as it is looked at."""

    async def observe(self, instance_id: InstanceId) -> Observation:
        """See one instance whole."""


class AwaitsGateways(Observes, Protocol):
    """The world, for whoever starts gateways."""

    async def await_gateway(self, instance: Instance, machine_id: MachineId) -> None:
        """Return once the gateway is healthy through the proxy."""


class HandsOver(AwaitsGateways, Protocol):
    """The world, for whoever hands machines their payload."""

    def payload_digest(self, instance: Instance) -> str:
        """Digest of what the instance's node should have been given."""

    async def personalise(self, instance: Instance, machine_id: MachineId, request: str | None) -> None:
        """Give the node its payload, with a certificate where it asks for one."""


class Cells(Protocol):
    """Stacks of cells."""

    async def holds(self, cell: CellName, machine: MachineName) -> bool:
        """Whether the cell's state has that machine."""

    async def apply(self, cell: CellName, *, still_wanted: Callable[[], Awaitable[bool]]) -> object:
        """Run the cell's stack for the rows as they are, unless that has become needless."""


class Rests(Observes, Protocol):
    """The world, for whoever brings gateways to rest."""

    async def start_machine(self, machine_id: MachineId) -> None:
        """Boot it."""

    async def await_machine(self, instance: Instance, machine_id: MachineId) -> None:
        """Return once it is ready and hermes-node answers."""

    async def stop_machine(self, instance: Instance, machine_id: MachineId) -> None:
        """Switch it off and return once it is."""

    async def fence(self, instance: Instance, machine_id: MachineId) -> None:
        """Let turns under way end, then stop the gateway for good."""

    async def release(self, machine_id: MachineId) -> None:
        """Take the fence away and start the gateway."""

    async def state(self, machine_id: MachineId) -> State | None:
        """What the state on a machine amounts to; ``None`` when it does not answer."""


class Copies(Protocol):
    """Backups of instances, made and put back under a lease."""

    async def reach(self) -> object:
        """Make sure that where copies are kept answers."""

    def made(self, instance_id: InstanceId, why: str) -> Backup | None:
        """The copy that was made for that."""

    async def make(self, instance: Instance, machine_id: MachineId, *, why: str) -> Backup:
        """Copy the state on a machine, unless it was copied for that before."""
