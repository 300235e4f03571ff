"""Daily backups: every running instance that is due, a few at a time."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from hermesops.backup.schedule import is_due
from hermesops.fan_out import Limits, problems
from hermesops.model.ids import InstanceId
from hermesops.model.instance import Instance, InstanceStatus

_SLOW_S = 120.0
"""Seconds for which one backup holds a place; one of some megabytes takes a thirtieth of it."""

_LONGEST_S = 6 * 3600.0
"""Seconds that one backup may take: a full data volume at four megabytes a second."""


class Rows(Protocol):
    """The registry, as far as it says who is due."""

    def list_instances(self, *, status: InstanceStatus | None = None) -> Sequence[Instance]:
        """Instances, oldest first."""

    def newest_backups(self) -> Mapping[InstanceId, datetime | None]:
        """When each living instance was backed up last."""

    def now(self) -> datetime:
        """The registry's clock."""


class Nightly:
    """Nightly backups.

    Args:
        back_up: Backs one instance up, as an operation.
        at_once: How many at the same time.
    """

    def __init__(self, rows: Rows, back_up: Callable[[Instance], Awaitable[object]], *, at_once: int) -> None:
        self._rows = rows
        self._back_up = back_up
        self._at_once = at_once

    def due(self) -> list[Instance]:
        """Running instances that are due; the last backup of a suspended one stays its newest."""
        now, newest = self._rows.now(), self._rows.newest_backups()
        running = self._rows.list_instances(status=InstanceStatus.RUNNING)
        due = [one for one in running if is_due(one.id, newest.get(one.id) or one.created_at, now)]
        # The one that would lose most comes first.
        return sorted(due, key=lambda one: newest.get(one.id) or one.created_at)

    async def run(self) -> dict[str, str]:
        """Back them up; by user why it failed, empty where it did not."""
        due, limits = self.due(), Limits(self._at_once, slow_after_s=_SLOW_S, within_s=_LONGEST_S)
        told = await problems(due, self._back_up, limits)
        return {instance.title: why for instance, why in zip(due, told, strict=True)}
