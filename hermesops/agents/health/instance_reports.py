"""Reports on one instance: row, machine, health, release, last backup, open operations and alerts, the last hour."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from hermesops.agents.health.fleet import observed_health
from hermesops.agents.instances.observation import Observation
from hermesops.agents.instances.suspension import Suspension, suspension_of
from hermesops.base.fan_out import attempt
from hermesops.errors import HermesError
from hermesops.model.fleet.health import Judgement
from hermesops.model.fleet.instance import Instance
from hermesops.model.ids import InstanceId
from hermesops.model.operation import Operation
from hermesops.model.providers.choice import ProviderChoice
from hermesops.model.recovery.backup import Backup
from hermesops.model.rollout.release import RecordedRelease
from hermesops.observability.telemetry.client import MonitoringClient
from hermesops.observability.telemetry.metrics.trends import Trends, trends_of
from hermesops.store.operations.leases.holder import is_gone
from hermesops.store.registry import Registry

if TYPE_CHECKING:
    from hermesops.observability.telemetry.alerts.shown_alerts import Alerts, OpenAlert

_WITHIN_S = 3.0
"""Seconds that the report waits for alerts, and for the price."""

_VENDOR_S = 20.0
"""Seconds that it waits for JustAVPS and the machine."""


@dataclass(frozen=True)
class InstanceAlerts:
    """Open alerts about one instance.

    Attributes:
        problem: Why they are not known; empty when they are.
    """

    open: "tuple[OpenAlert, ...]" = ()
    problem: str = ""


@dataclass(frozen=True)
class OpenWork:
    """An operation on the instance that has not ended.

    Attributes:
        holder: The process that works on it; empty where none does.
    """

    operation: Operation
    holder: str


@dataclass(frozen=True)
class OwnProvider:
    """The user's own model provider.

    Attributes:
        choice: Without its key; ``None`` for the platform's models.
        problem: Why it is not known; empty where it is.
    """

    choice: ProviderChoice | None = None
    problem: str = ""


@dataclass(frozen=True)
class InstanceReport:
    """Everything that is known of one instance now.

    Attributes:
        region: Of its cell.
        health: ``None`` for an instance that should not run.
        suspension: The last one that is recorded; ``None`` for none.
        release: Recorded last; the machine's own is in ``observation``.
        backup: The newest; ``None`` for none.
        price: Of its machine, US dollars a month; ``None`` where it has none, or the vendor does not say.
        problem: Why JustAVPS and the machine are not known; empty when they are. The rest is the registry's.
    """

    observation: Observation
    region: str
    health: Judgement | None
    suspension: Suspension | None
    release: RecordedRelease | None
    backup: Backup | None
    work: tuple[OpenWork, ...]
    alerts: InstanceAlerts
    price: Decimal | None
    trends: Trends
    problem: str = ""
    provider: OwnProvider = field(default_factory=OwnProvider)


@dataclass(frozen=True)
class InstanceReports:
    """Reports on instances of one environment.

    Attributes:
        observe: Asks JustAVPS and the machine about an instance.
        monitoring: Its client; ``None`` where the environment has none.
        alerts: Its alerts; asked only where there is monitoring.
        price: The list price of a server type in a region, US dollars a month; ``None`` where it is not known.
        provider: An instance's own model provider without its key; ``None`` for the platform's models.
    """

    registry: Registry
    observe: Callable[[InstanceId], Awaitable[Observation]]
    monitoring: Callable[[], MonitoringClient | None]
    alerts: "Callable[[], Alerts]"
    price: Callable[[str, str], Awaitable[Decimal | None]]
    provider: Callable[[Instance], ProviderChoice | None] = lambda _: None

    async def of(self, instance: Instance) -> InstanceReport:
        """Ask vendor, machine and monitoring about an instance, all at once.

        Alerts and price are waited for 3 seconds at most, the last hour for 2; what comes later is not known. Where
        JustAVPS does not answer within 20 seconds, the report has all that the registry knows, and the reason.
        """
        client, asked_at = self.monitoring(), self.registry.now()
        trends = asyncio.ensure_future(trends_of(client, instance.id, asked_at))
        alerts = asyncio.ensure_future(self._alerts(instance, has_monitoring=client is not None))
        try:
            answer = await attempt(self.observe, instance.id, _VENDOR_S)
            problem = answer.message if isinstance(answer, HermesError) else ""
            observation = Observation(instance, None) if isinstance(answer, HermesError) else answer
            price = await self._price(observation)
            last_hour, open_alerts = await trends, await alerts
        finally:
            trends.cancel()
            alerts.cancel()
        operations = self.registry.operations.list(instance_id=instance.id)
        return InstanceReport(
            observation,
            region=self.registry.cells.get(instance.cell).region,
            health=observed_health(self.registry, observation, is_vendor_known=not problem),
            suspension=suspension_of(operations),
            release=self.registry.rollout_targets.recorded_releases([instance.id]).get(instance.id),
            backup=next(iter(self.registry.backups.list(instance.id)), None),
            work=self._open_work(operations),
            alerts=open_alerts,
            price=price,
            trends=last_hour,
            problem=problem,
            provider=self._provider(instance),
        )

    def _provider(self, instance: Instance) -> OwnProvider:
        try:
            return OwnProvider(self.provider(instance))
        except HermesError as error:
            return OwnProvider(problem=error.message)

    async def _alerts(self, instance: Instance, *, has_monitoring: bool) -> InstanceAlerts:
        if not has_monitoring:
            return InstanceAlerts(problem="there is no monitoring here")
        alerts = await attempt(lambda subject: self.alerts().list(instance=subject), instance, _WITHIN_S)
        return InstanceAlerts(problem=alerts.message) if isinstance(alerts, HermesError) else InstanceAlerts(alerts)

    async def _price(self, observation: Observation) -> Decimal | None:
        machine = observation.existing_machine
        if machine is None or machine.price_monthly is not None:
            return machine.price_monthly if machine else None
        price = await attempt(lambda rented: self.price(rented.region, rented.server_type), machine, _WITHIN_S)
        return None if isinstance(price, HermesError) else price

    def _open_work(self, operations: tuple[Operation, ...]) -> tuple[OpenWork, ...]:
        unfinished = [operation for operation in operations if not operation.status.has_ended]
        leases = self.registry.leases.list() if unfinished else ()
        holders = {lease.subject: lease.holder for lease in leases if not is_gone(lease.holder)}
        return tuple(OpenWork(operation, holders.get(operation.subject, "")) for operation in unfinished)


def unanswered(problem: HermesError) -> Callable[..., Awaitable[Any]]:
    """A question that is never answered, for this reason: in place of those to a vendor that cannot be addressed."""

    async def refuse(*_: object) -> Any:  # noqa: ANN401 - it returns nothing
        raise problem

    return refuse
