"""Drift: differences, timelines, repairs of orphans, and the registry's rebuild."""

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from datetime import datetime
    from typing import Any

    from hermesops.agents.drift.history.changes import Happening
    from hermesops.agents.drift.history.timeline import Timelines
    from hermesops.agents.drift.lost_registry.recovery import OrphanRepairs, Orphans, RegistryRebuild
    from hermesops.agents.drift.service import Drift
    from hermesops.app.connected import Connected
    from hermesops.app.container import Container
    from hermesops.model.ids import InstanceId


def drift(connected: "Connected") -> "Drift":
    """Finds differences, and repairs machines by their roles."""
    from hermesops.agents.drift.service import Drift

    container = connected.container
    return Drift(
        env=container.env,
        registry=container.registry,
        client=connected.client,
        cells=container.cell_stacks,
        instance_client=connected.instance_client,
        converger=container.converger,
        recipe=container.image_recipes.of_agents,
        verify=connected.verify,
        hold_lease=container.hold_lease,
        report=container.report,
    )


def timelines(container: "Container") -> "Timelines":
    """Timelines of instances. Raises as ``monitoring``."""
    from hermesops.agents.drift.history.timeline import Timelines

    return Timelines(container.registry, container.monitoring_client())


def read_happenings(
    container: "Container",
) -> "Callable[[datetime], Coroutine[Any, Any, tuple[Happening, ...]]]":
    """Reads the fleet's changes since a moment."""
    from hermesops.agents.drift.service import happenings

    return lambda since: happenings(container.registry, container.engine, since, container.report)


def orphan_repairs(container: "Container") -> "OrphanRepairs":
    """Adopts or destroys machines of ours that no instance is on."""
    from hermesops.agents.drift.lost_registry.recovery import OrphanRepairs

    return OrphanRepairs(partial(_orphans, container))


@asynccontextmanager
async def _orphans(container: "Container") -> "AsyncIterator[Orphans]":
    from hermesops.agents.drift.lost_registry.recovery import Orphans, read_identities

    async def take_back(instance_id: "InstanceId") -> None:
        if container.backup_store.holds_anything:
            await container.recovery_records.take_back(instance_id)

    async with container.vendor() as client:
        read = partial(read_identities, client, lambda: container.router_keys)
        yield Orphans(container.env.name, container.registry, client, read, container.hold_lease, take_back)


def registry_rebuild(container: "Container") -> "RegistryRebuild":
    """Rebuilds a lost registry from the vendor's list and the machines."""
    from hermesops.agents.drift.lost_registry.recovery import RegistryRebuild

    return RegistryRebuild(
        environment=container.env.name,
        place=container.registry_place,
        vendor=container.vendor,
        engine=lambda: container.engine,
        router_keys=lambda: container.router_keys,
        records=lambda: container.stored_records if container.backup_store.holds_anything else None,
        report=container.report,
    )
