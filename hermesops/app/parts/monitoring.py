"""The platform's monitoring, its alerts and logs, and the monitor."""

from contextlib import asynccontextmanager
from functools import cache, partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator

    from hermesops.app.connected import Connected
    from hermesops.app.container import Container
    from hermesops.automation.monitor.runner import Monitor
    from hermesops.automation.monitor.service import MonitorLead
    from hermesops.observability.telemetry.alerts.shown_alerts import Alerts
    from hermesops.observability.telemetry.client import MonitoringClient
    from hermesops.observability.telemetry.logs.instance_logs import InstanceLogs
    from hermesops.observability.telemetry.platform_monitoring import PlatformMonitoring
    from hermesops.vendor.justavps import Client

_MONITOR = "hermesops-monitor"


def monitoring(container: "Container") -> "PlatformMonitoring":
    """Finds the address of the platform's monitoring, and makes clients of it."""
    from hermesops.observability.telemetry.platform_monitoring import PlatformMonitoring

    return PlatformMonitoring(
        container.env,
        partial(_client_context, container),
        lambda: not container.adapters.is_simulated,
    )


def _client_context(container: "Container", name: str) -> "ssl.SSLContext":
    return container.authority.client_context(name)


def monitoring_client(container: "Container") -> "MonitoringClient | None":
    """Asks the platform's monitoring; ``None`` where there is none. Raises as ``PlatformMonitoring.endpoint``."""
    return container.monitoring.client()


def require_monitoring(container: "Container") -> "MonitoringClient":
    """Asks the platform's monitoring, for a command that needs it. Raises as ``PlatformMonitoring.require``."""
    return container.monitoring.require()


def alerts(container: "Container") -> "Alerts":
    """Alerts and silences.

    Raises:
        UsageError: The environment has no monitoring.
    """
    from hermesops.base import assets
    from hermesops.observability.runbook.service import alert_steps
    from hermesops.observability.telemetry.alerts.shown_alerts import Alerts

    steps = cache(partial(alert_steps, assets.folder("runbooks")))
    return Alerts(container.registry, container.require_monitoring(), steps)


def instance_logs(connected: "Connected") -> "InstanceLogs":
    """Reads instances' logs. Raises as ``PlatformMonitoring.endpoint``."""
    from hermesops.observability.telemetry.logs.instance_logs import InstanceLogs

    container = connected.container
    return InstanceLogs(connected.instance_client, container.monitoring_client(), container.registry.now)


def monitor_lead(container: "Container") -> "MonitorLead":
    """The leading monitor, which alone repairs."""
    from hermesops.automation.monitor.service import MonitorLead

    return MonitorLead(container.registry)


@asynccontextmanager
async def monitor(connected: "Connected", *, every_s: float, grace_s: float) -> "AsyncIterator[Monitor]":
    """The monitor of this environment.

    Args:
        every_s: Seconds from the begin of one pass to the next.
        grace_s: Seconds for repairs under way to end after a stop was requested.
    """
    from hermesops.automation.monitor.metrics.figures import PROVISIONS_S, FleetFigures
    from hermesops.automation.monitor.metrics.platform_metrics import open_metrics
    from hermesops.automation.monitor.ports import Ports
    from hermesops.automation.monitor.runner import Monitor
    from hermesops.automation.monitor.service import InstanceRepairs, VendorMachines, policy_of
    from hermesops.automation.monitor.service_manager import SystemdNotify
    from hermesops.users.messaging.handover import is_offered

    container, client = connected.container, connected.instance_client
    env, registry, settings = container.env, container.registry, container.env.settings
    endpoint = container.monitoring.endpoint(_MONITOR)
    async with open_metrics(endpoint, settings.prometheus_url.rstrip("/")) as metrics:
        ports = Ports(
            registry,
            FleetFigures(
                registry,
                PROVISIONS_S * settings.monitoring.time_scale,
                agents_dial=is_offered(container.messenger_settings),
            ).read,
            metrics,
            VendorMachines(env.name, registry, client, partial(_open_client, connected)),
            InstanceRepairs(registry, connected.instance_requests, connected.operations, client),
            SystemdNotify(env.variables.get("NOTIFY_SOCKET", "")),
        )
        yield Monitor(ports, policy_of(settings.monitoring), every_s=every_s, grace_s=grace_s)


@asynccontextmanager
async def _open_client(connected: "Connected") -> "AsyncIterator[Client]":
    """The client that is open already, which the caller does not close."""
    yield connected.client
