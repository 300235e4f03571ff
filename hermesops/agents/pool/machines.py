"""Machines without a user: listed, asked, checked and warmed up."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from hermesops.agents.instances.remote.power_control import PowerControl
from hermesops.model.fleet.health import NodeState
from hermesops.model.fleet.unassigned_machine import UnassignedMachine
from hermesops.model.ids import MachineId, MachineName
from hermesops.model.operation import Lease
from hermesops.vendor.justavps import Client, Machine
from hermesops.vendor.justavps.ordering import newest_named


@dataclass(frozen=True)
class PoolMachines:
    """Machines of pools, at the vendor and by hermes-node.

    Attributes:
        checks: Runs the checks of a machine without a user; the failed ones.
    """

    client: Client
    instance_client: PowerControl
    checks: Callable[[MachineId], Awaitable[Sequence[str]]]

    async def listed(self) -> Mapping[MachineName, Machine]:
        """The vendor's list, by name; of several of a name the newest."""
        machines = await self.client.list_machines()
        names = {machine.name for machine in machines}
        newest = {
            MachineName(name): newest_named([machine for machine in machines if machine.name == name], name)
            for name in names
        }
        return {name: machine for name, machine in newest.items() if machine}

    async def node(self, machine_id: MachineId) -> NodeState | None:
        """The answer of hermes-node; ``None`` while it does not answer."""
        return await self.instance_client.node(machine_id)

    async def await_machine(self, row: UnassignedMachine) -> None:
        """Return once it is ready and hermes-node answers."""
        if row.machine_id:
            await self.instance_client.await_named(row.name, row.machine_id)

    async def faults(self, machine_id: MachineId) -> Sequence[str]:
        """The checks that a machine without an instance fails."""
        return await self.checks(machine_id)

    async def warm(self, machine_id: MachineId, lease: Lease) -> str:
        """Start its gateway with a placeholder; the API key that was made there, empty where it stays cold."""
        client = self.instance_client.with_lease(lease)
        key = await client.warm_up(machine_id)
        # Before a user claims it, so that the key is known and the payload can contain the certificate.
        if client.certifying:
            await client.certifying.certify(client.channel(machine_id), machine_id)
        return key
