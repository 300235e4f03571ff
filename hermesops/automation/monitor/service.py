"""The monitor's view of the registry, the vendor and operations; and which monitor leads."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime

from hermesops.agents.cells.costs import costs_of
from hermesops.agents.health.fleet import fleet_health
from hermesops.agents.instances import refusals
from hermesops.agents.instances.remote.both_ways import ask_both_ways
from hermesops.agents.instances.remote.instance_client import InstanceClient
from hermesops.agents.instances.requests.changes import InstanceRequests
from hermesops.agents.rollout.requests import outdated
from hermesops.automation.monitor.decide import Actions, Policy, Repairing, Replace
from hermesops.automation.monitor.exposition import Series, series
from hermesops.automation.monitor.fleet_observation import list_machines
from hermesops.automation.monitor.ports import Figures
from hermesops.errors import Hint, RefusedError, UnavailableError
from hermesops.model.backup import newest_to_restore
from hermesops.model.billing import BillingState
from hermesops.model.fleet import ExpectedFleet
from hermesops.model.health import Answers, GatewayHealth
from hermesops.model.ids import InstanceId, OperationId
from hermesops.model.instance import InstanceStatus
from hermesops.model.operation import MONITOR_SUBJECT, Lease, Operation, OperationKind, OperationStatus
from hermesops.model.rollout import RolloutState
from hermesops.settings.sections import MonitoringSettings
from hermesops.store.operations.runner import Operations
from hermesops.store.registry import Registry
from hermesops.vendor.justavps import Client

REASON = "monitor: "
"""What the reasons of operations begin with that the monitor opens."""

PROVISIONS_S = 3600.0
"""Seconds for which a provision that ended is told: the alert about slow ones is of the last hour's."""

_PENDING = (BillingState.QUEUED, BillingState.WAITING, BillingState.SET_ASIDE)

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
    """Which of an environment's monitors acts."""

    registry: Registry

    def require(self) -> Lease:
        """The lease of the monitor that acts.

        Raises:
            UnavailableError: None does.
        """
        lease = next((one for one in self.registry.leases.list() if one.subject == MONITOR_SUBJECT), None)
        if lease is None:
            raise UnavailableError("no monitor acts", hint=Hint(("monitor",), "starts one"))
        return lease


def waits(provisions: Iterable[Operation]) -> Iterator[tuple[Operation, float]]:
    """How long users waited for their agents: each provision that is done, and the seconds since the first request.

    A request that is refused halfway ends its operation, and the next is an operation of its own: the user waited since
    the first one.
    """
    asked: dict[str, datetime] = {}
    for one in sorted(provisions, key=lambda one: one.created_at):
        since = asked.setdefault(one.subject, one.created_at)
        if one.status is OperationStatus.DONE:
            del asked[one.subject]
            yield one, (one.updated_at - since).total_seconds()


@dataclass(frozen=True)
class MonitorRecords:
    """``hermesops.automation.monitor.ports.Records`` in the registry.

    Attributes:
        provisions_s: See ``PROVISIONS_S``.
    """

    registry: Registry
    provisions_s: float = PROVISIONS_S

    def expected(self) -> ExpectedFleet:
        """Every instance that should run."""
        return self.registry.fleet.expected(reason=REASON)

    def record_reported(self, reported: Mapping[InstanceId, GatewayHealth | None]) -> None:
        """Record what machines said of their gateways."""
        self.registry.fleet.record_reported(reported)

    def record_heartbeats(self, beats: Mapping[InstanceId, datetime]) -> int:
        """Record heartbeats where they are newer; how many were."""
        return self.registry.fleet.record_heartbeats(beats)

    def figures(self, fleet: ExpectedFleet) -> Figures:
        """Backups, and what is told of instances, rollouts, provisions and billing."""
        expected = {one.id for one in fleet.instances}
        return Figures(
            self.registry.backups.newest(),
            {
                **self._conditions(),
                **self._never_backed_up(expected, fleet.now),
                **{
                    series("hermesops_instance_outdated", instance_id=one.instance_id): 1.0
                    for one in outdated(self.registry)
                    if one.instance_id in expected
                },
                **{
                    series("hermesops_break_glass_open", instance_id=one.instance_id): 1.0
                    for one in self.registry.break_glass.list_open()
                },
                **self._rollouts(),
                **self._provisions(fleet.now),
                **self._billing(fleet.now),
            },
        )

    def _conditions(self) -> dict[Series, float]:
        return {
            series("hermesops_instance_condition", instance_id=one, condition=judgement.condition.value): 1.0
            for one, judgement in fleet_health(self.registry).judgements.items()
        }

    def _never_backed_up(self, expected: Collection[InstanceId], now: datetime) -> dict[Series, float]:
        """As old as the instance: without a figure, the one that would lose most would look as if all were well."""
        return {
            series("hermesops_instance_backup_age_seconds", instance_id=one): (now - created_at).total_seconds()
            for one, created_at in self.registry.backups.never().items()
            if one in expected
        }

    def _rollouts(self) -> dict[Series, float]:
        unfinished = self.registry.rollouts.list(unfinished=True)
        states = {series("hermesops_rollout_state", rollout=one.id, state=one.state.value): 1.0 for one in unfinished}
        halted = [one for one in unfinished if one.state is RolloutState.HALTED]
        return states | {series("hermesops_rollout_halted", rollout=one.id): 1.0 for one in halted}

    def _provisions(self, now: datetime) -> dict[Series, float]:
        provisions = self.registry.operations.list(kind=OperationKind.PROVISION)
        # One that was refused halfway has no operation any more, and its user waits all the same.
        begun = [
            *(one.created_at for one in provisions if not one.status.has_ended),
            *(one.created_at for one in self.registry.instances.list(status=InstanceStatus.PROVISIONING)),
        ]
        return {
            series("hermesops_provision_oldest_seconds"): (now - min(begun, default=now)).total_seconds(),
            **{
                series("hermesops_provision_seconds", operation=one.id): waited_s
                for one, waited_s in waits(provisions)
                if (now - one.updated_at).total_seconds() <= self.provisions_s
            },
        }

    def _billing(self, now: datetime) -> dict[Series, float]:
        since = self.registry.billing.oldest_pending()
        return {
            series("hermesops_billing_oldest_seconds", state=state.value): (
                (now - since.get(state, now)).total_seconds()
            )
            for state in _PENDING
        }


@dataclass(frozen=True)
class VendorMachines:
    """``hermesops.automation.monitor.ports.Machines`` at the vendor."""

    environment: str
    registry: Registry
    client: InstanceClient
    vendor: OpenVendor

    async def list(self) -> None:
        """Ask the vendor for its list of machines, and record it."""
        await list_machines(self.registry, self.vendor, self.environment)

    async def ask(self, instance_id: InstanceId) -> Answers:
        """Ask a machine by both ways."""
        answers, _ = await ask_both_ways(self.client, self.registry.instances.get(instance_id))
        return answers

    async def cost(self) -> Mapping[str, float]:
        """US dollars a month, by cell."""
        costs = await costs_of(self.registry, self.vendor, self.environment)
        return {cell: float(bill.monthly) for cell, bill in costs.cells.items()}


@dataclass(frozen=True)
class InstanceRepairs:
    """``hermesops.automation.monitor.ports.Repairs`` by the operations that commands open too."""

    registry: Registry
    requests: InstanceRequests
    operations: Operations
    client: InstanceClient

    async def run(self, wanted: Repairing) -> str:
        """Open the operation and bring it to its end.

        Raises:
            RefusedError: It may not be done, or could not be.
            UnavailableError: It stopped halfway; it is continued later.
        """
        reason = f"{REASON}{wanted.why}"
        if isinstance(wanted, Replace):
            operation = await self.requests.restore(
                wanted.instance_id, snapshot=await self._backup(wanted), reason=reason
            )
        else:
            operation = await self.requests.reboot(wanted.instance_id, reason=reason)
        return await self.operations.run(operation)

    async def resume(self, operation_id: OperationId) -> str:
        """Continue an operation."""
        return await self.operations.run(self.registry.operations.get(operation_id))

    async def _backup(self, wanted: Replace) -> str:
        """The newest backup of an instance whose machine still does not answer.

        Raises:
            RefusedError: There is none, or it answers after all.
        """
        instance = self.registry.instances.get(wanted.instance_id)
        answers, _ = await ask_both_ways(self.client, instance)
        if not answers.is_silent:
            raise RefusedError(f"machine {instance.machine_name} of {instance.title} is not silent any more")
        newest = newest_to_restore(self.registry.backups.list(instance.id))
        if newest is None:
            raise refusals.no_backup(instance)
        return newest.id
