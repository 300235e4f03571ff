"""Reports on one instance: its row, its machine, its health, its suspension, and the last hour by monitoring."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from hermesops.agents.health.fleet import observed_health
from hermesops.agents.instances.observation import Observation
from hermesops.agents.instances.remote.power_control import PowerControl
from hermesops.agents.instances.suspension import Suspension, suspension_of
from hermesops.model.health import Judgement
from hermesops.model.instance import Instance
from hermesops.observability.telemetry.client import MonitoringClient
from hermesops.observability.telemetry.trends import Trends, trends_of
from hermesops.store.registry import Registry


@dataclass(frozen=True)
class InstanceReport:
    """What is known of one instance now.

    Attributes:
        health: ``None`` for an instance that should not run.
        suspension: The last one that is recorded; ``None`` for none.
    """

    observation: Observation
    health: Judgement | None
    suspension: Suspension | None
    trends: Trends


@dataclass(frozen=True)
class InstanceReports:
    """Reports on instances of one environment.

    Attributes:
        monitoring: Its client; ``None`` where the environment has none.
    """

    registry: Registry
    instance_client: PowerControl
    monitoring: Callable[[], MonitoringClient | None]

    async def of(self, instance: Instance) -> InstanceReport:
        """Ask vendor, machine and monitoring about an instance, all at once."""
        asked_at = self.registry.now()
        trends = asyncio.ensure_future(trends_of(self.monitoring(), instance.id, asked_at))
        try:
            observation, last_hour = await self.instance_client.observe(instance.id), await trends
        finally:
            trends.cancel()
        return InstanceReport(
            observation,
            observed_health(self.registry, observation),
            suspension_of(self.registry.operations.list(instance_id=instance.id)),
            last_hour,
        )
