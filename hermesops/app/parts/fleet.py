"""The state of the whole fleet."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermesops.agents.health.fleet_status import Fleet
    from hermesops.app.container import Container
    from hermesops.automation.monitor.fleet_observation import FleetObservation
    from hermesops.observability.telemetry.metrics.top import FleetTop


def fleet(container: "Container") -> "Fleet":
    """Reads the state of the fleet."""
    from hermesops.agents.health.fleet_status import Fleet

    settings = container.env.settings
    return Fleet(container.registry, settings.monitoring, settings.data_gb)


def fleet_observation(container: "Container") -> "FleetObservation":
    """Asks JustAVPS and agents how the fleet is."""
    from hermesops.automation.monitor.fleet_observation import FleetObservation

    return FleetObservation(container.registry, container.vendor, container.env.name)


def fleet_top(container: "Container") -> "FleetTop":
    """Orders instances by figures of the platform's monitoring."""
    from hermesops.observability.telemetry.metrics.top import FleetTop

    return FleetTop(container.registry, container.require_monitoring)
