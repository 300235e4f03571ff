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
    """Backs up every running instance whose daily backup is due.

    Args:
        at_once: Backups that run at the same time.
    """

    def __init__(self, registry: Registry, back_up: Callable[[Instance], Awaitable[object]], *, at_once: int) -> None:
        self._registry = registry
        self._back_up = back_up
        self._at_once = at_once

    def due(self) -> list[Instance]:
        """Choose running instances that are due, the oldest backup first; suspended ones keep their last backup."""
        now, newest = self._registry.now(), self._registry.backups.newest()
        running = self._registry.instances.list(status=InstanceStatus.RUNNING)
        due = [
            instance for instance in running if is_due(instance.id, newest.get(instance.id) or instance.created_at, now)
        ]
        # The one that would lose most comes first.
        return sorted(due, key=lambda instance: newest.get(instance.id) or instance.created_at)

    async def run(self) -> dict[str, str]:
        """Back up the due instances; returns the problem of each by user, empty for a success."""
        limits = Limits(self._at_once, slow_after_s=_SLOW_S, within_s=_LONGEST_S)
        return await problems({instance.title: instance for instance in self.due()}, self._back_up, limits)
