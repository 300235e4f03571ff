"""Daily backups: every running instance that is due, a few at a time."""

from collections.abc import Awaitable, Callable

from hermesops.agents.backup.daily.schedule import is_due
from hermesops.base.fan_out import Limits, problems
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.store.registry import Registry

_SLOW_S = 120.0
"""Seconds for which one backup holds a place; one of some megabytes takes a thirtieth of it."""

_LONGEST_S = 6 * 3600.0
"""Seconds that one backup may take: a full data volume at four megabytes a second."""


class Nightly:
    """Nightly backups."""

    def __init__(self, registry: Registry, back_up: Callable[[Instance], Awaitable[object]], *, at_once: int) -> None:
        self._registry = registry
        self._back_up = back_up
        self._at_once = at_once

    def due(self) -> list[Instance]:
        """Running instances that are due; the last backup of a suspended one stays its newest."""
        now, newest = self._registry.now(), self._registry.backups.newest()
        running = self._registry.instances.list(status=InstanceStatus.RUNNING)
        due = [one for one in running if is_due(one.id, newest.get(one.id) or one.created_at, now)]
        # The one that would lose most comes first.
        return sorted(due, key=lambda one: newest.get(one.id) or one.created_at)

    async def run(self) -> dict[str, str]:
        """Back them up; by user why it failed, empty where it did not."""
        limits = Limits(self._at_once, slow_after_s=_SLOW_S, within_s=_LONGEST_S)
        return await problems({one.title: one for one in self.due()}, self._back_up, limits)
