"""The monitor's view of the vendor and of operations; and which monitor leads."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from hermesops.agents.cells.cost.costs import costs_of
from hermesops.agents.instances import refusals
from hermesops.agents.instances.remote.both_ways import ask_both_ways
from hermesops.agents.instances.remote.instance_client import InstanceClient
from hermesops.agents.instances.requests.changes import InstanceRequests
from hermesops.automation.monitor.decide import Actions, Policy, Repairing, Replace
from hermesops.automation.monitor.fleet_observation import list_machines
from hermesops.errors import Hint, RefusedError, UnavailableError
from hermesops.model.fleet.health import Answers
from hermesops.model.ids import InstanceId, OperationId
from hermesops.model.operation import MONITOR_SUBJECT, Lease
from hermesops.model.recovery.backup import newest_to_restore
from hermesops.settings.sections import MonitoringSettings
from hermesops.store.operations.runner import Operations
from hermesops.store.registry import Registry
from hermesops.vendor.justavps import Client

REASON = "monitor: "
"""What the reasons of operations begin with that the monitor opens."""

OpenVendor = Callable[[], AbstractAsyncContextManager[Client]]


def policy_of(settings: MonitoringSettings) -> Policy:
    """The limits that the settings name."""
    return Policy(
        Actions(settings.actions),
        settings.reboots_per_hour,
        settings.replacements_per_day,
        settings.cell_repairs_per_hour,
        settings.repairs_per_hour,
        settings.silent_share,
    )


@dataclass(frozen=True)
class MonitorLead:
    """Reads the lease of the monitor that acts for an environment."""

    registry: Registry

    def require(self) -> Lease:
        """The lease of the monitor that acts.

        Raises:
            UnavailableError: None does.
        """
        lease = next((lease for lease in self.registry.leases.list() if lease.subject == MONITOR_SUBJECT), None)
        if lease is None:
            raise UnavailableError("no monitor acts", hint=Hint(("monitor",), "starts one"))
        return lease


@dataclass(frozen=True)
class VendorMachines:
    """The vendor, and machines through it."""

    environment: str
    registry: Registry
    client: InstanceClient
    vendor: OpenVendor

    async def list(self) -> None:
        """Ask the vendor for its list of machines, and record it."""
        await list_machines(self.registry, self.vendor, self.environment)

    async def ask(self, instance_id: InstanceId) -> Answers:
        """Ask a machine by both ways; raises nothing of the vendor's."""
        answers, _ = await ask_both_ways(self.client, self.registry.instances.get(instance_id))
        return answers

    async def cost(self) -> Mapping[str, float]:
        """US dollars a month, by cell.

        Raises:
            UnavailableError: The vendor does not say what machines cost.
        """
        costs = await costs_of(self.registry, self.vendor, self.environment)
        if costs.problem:
            raise costs.problem
        return {cell: float(bill.monthly) for cell, bill in costs.cells.items()}


@dataclass(frozen=True)
class InstanceRepairs:
    """Repairs instances by the operations that commands open too.

    Each takes the instance's lease, and may be killed at any moment.
    """

    registry: Registry
    requests: InstanceRequests
    operations: Operations
    client: InstanceClient

    async def run(self, repair: Repairing) -> str:
        """Open the operation and bring it to its end.

        Raises:
            RefusedError: It may not be done, or could not be.
            UnavailableError: It stopped halfway; it is continued later.
        """
        reason = f"{REASON}{repair.why}"
        if isinstance(repair, Replace):
            operation = await self.requests.restore(
                repair.instance_id, snapshot=await self._backup(repair), reason=reason
            )
        else:
            operation = await self.requests.reboot(repair.instance_id, reason=reason)
        return await self.operations.run(operation)

    async def resume(self, operation_id: OperationId) -> str:
        """Run an unfinished operation to its end and return its outcome."""
        return await self.operations.run(self.registry.operations.get(operation_id))

    async def _backup(self, repair: Replace) -> str:
        """The newest backup of an instance; refuses if its machine answers again.

        Raises:
            RefusedError: There is none, or it answers after all.
        """
        instance = self.registry.instances.get(repair.instance_id)
        answers, _ = await ask_both_ways(self.client, instance)
        if not answers.is_silent:
            raise RefusedError(f"machine {instance.machine_name} of {instance.title} is not silent any more")
        newest = newest_to_restore(self.registry.backups.list(instance.id))
        if newest is None:
            raise refusals.no_backup(instance)
        return newest.id
