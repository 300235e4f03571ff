"""The list of instances with health, release and region, from what the registry has recorded; nobody is asked."""

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING

from hermesops.agents.health.fleet import fleet_health, fleet_selector, recorded_health
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.fleet.selector import Selector

if TYPE_CHECKING:
    from hermesops.agents.health.fleet import FleetHealth
    from hermesops.model.fleet.health import Judgement
    from hermesops.model.fleet.instance import Instance
    from hermesops.model.fleet.overview import CellTally, RecordedInstance
    from hermesops.model.ids import CellName, InstanceId
    from hermesops.model.plan import Plan
    from hermesops.model.rollout.release import RecordedRelease
    from hermesops.store.registry import Registry

SELECTABLE = frozenset({"cell", "health", "plan", "region", "release", "status", "user"})
"""Fields of ``--where``."""

UNKNOWN = "unknown"
"""Value of ``release`` where none is recorded."""


@dataclass(frozen=True, slots=True)
class ListedInstance:
    """One instance, as it is listed.

    Attributes:
        health: ``None`` for an instance that should not run.
        release: Recorded last; ``None`` where none was.
    """

    instance: "Instance"
    region: str
    health: "Judgement | None"
    release: "RecordedRelease | None"

    @property
    def fields(self) -> Mapping[str, str]:
        """The values that ``--where`` compares; an instance that should not run has no health."""
        instance, health = self.instance, self.health
        return {
            "cell": instance.cell,
            "plan": instance.plan.value,
            "region": self.region,
            "release": self.release.id if self.release else UNKNOWN,
            "status": instance.status.value,
            "user": instance.title,
            **({"health": health.condition.value} if health else {}),
        }


@dataclass(frozen=True)
class ListedPart:
    """A part of a list.

    Attributes:
        ids: Of all instances of the list, oldest first.
    """

    rows: tuple[ListedInstance, ...]
    ids: tuple["InstanceId", ...]


@dataclass(frozen=True)
class InstanceList:
    """Lists the instances of one environment."""

    registry: "Registry"

    def selector(self, where: str) -> Selector:
        """The instances that ``--where`` means; users by any of their names.

        Raises:
            UsageError: It cannot be read, or names a field, user or cell that is not there.
        """
        return fleet_selector(self.registry, where, fields=SELECTABLE)

    def read(
        self,
        selector: Selector | None = None,
        *,
        plan: "Plan | None" = None,
        status: InstanceStatus | None = None,
        cell: "CellName | None" = None,
        terminated: bool = False,
    ) -> tuple[ListedInstance, ...]:
        """Instances, oldest first; terminated ones only with ``terminated`` or with that ``status``."""
        registry = self.registry
        judgements = fleet_health(registry).judgements
        regions = {place.name: place.region for place in registry.cells.list()}
        releases = registry.rollout_targets.recorded_releases()
        instances = registry.instances.list(plan=plan, status=status, cell=cell, terminated=terminated)
        rows = (
            ListedInstance(
                instance, regions.get(instance.cell, ""), judgements.get(instance.id), releases.get(instance.id)
            )
            for instance in instances
        )
        return tuple(row for row in rows if selector is None or selector.takes(row.fields))

    def part(self, selector: Selector, begin: int, count: int, *, text: str = "") -> ListedPart:
        """Some of the instances that ``read`` lists; whole rows are read of these alone.

        Args:
            begin: Number of the first one, from 0.
            text: Words that occur in what names an instance, each of them; capitals make no difference.

        Raises:
            UsageError: The text is too long.
        """
        registry = self.registry
        health = fleet_health(registry, cells=selector.values("cell")) if selector.conditions else None
        chosen = self._ids(health, selector, text) if health else registry.fleet.search(text)
        shown = chosen[begin : begin + count]
        instances = registry.instances.list_by_id(shown)
        if not instances:
            return ListedPart((), chosen)
        if health is None:
            health = fleet_health(registry, cells={instance.cell for instance in instances})
        regions = {cell.cell: cell.region for cell in health.cells}
        releases = registry.rollout_targets.recorded_releases(shown)
        rows = (
            ListedInstance(
                instance, regions[instance.cell], health.judgements.get(instance.id), releases.get(instance.id)
            )
            for instance in instances
            if instance.cell in regions
        )
        return ListedPart(tuple(rows), chosen)

    def _ids(self, health: "FleetHealth", selector: Selector, text: str) -> tuple["InstanceId", ...]:
        """The ids of the instances that a selector takes and whose names have each word of a text, oldest first."""
        releases = self.registry.rollout_targets.recorded_releases() if selector.values("release") else {}
        matching = frozenset(self.registry.fleet.search(text)) if text.split() else None
        taken = [
            instance
            for cell in health.cells
            for instance in cell.instances
            if (matching is None or instance.id in matching)
            and selector.takes(_fields(cell, instance, health, releases))
        ]
        return tuple(instance.id for instance in sorted(taken, key=attrgetter("place")))

    def of(self, instance: "Instance") -> ListedInstance:
        """One instance, terminated or not, as ``read`` lists it; others are not judged."""
        registry = self.registry
        return ListedInstance(
            instance,
            registry.cells.get(instance.cell).region,
            recorded_health(registry, instance),
            registry.rollout_targets.recorded_releases([instance.id]).get(instance.id),
        )

    def agents_by_release(self) -> Mapping[str, tuple[str, ...]]:
        """Users of running agents by the release that each was last observed to run, ``UNKNOWN`` for none."""
        releases = self.registry.rollout_targets.recorded_releases()
        users: dict[str, list[str]] = {}
        for instance in self.registry.instances.list(status=InstanceStatus.RUNNING):
            recorded = releases.get(instance.id)
            users.setdefault(recorded.id if recorded else UNKNOWN, []).append(instance.title)
        return {release: tuple(sorted(names)) for release, names in users.items()}


def _fields(
    cell: "CellTally",
    instance: "RecordedInstance",
    health: "FleetHealth",
    releases: "Mapping[InstanceId, RecordedRelease]",
) -> Mapping[str, str]:
    """The fields of a listed instance, before its whole row is read."""
    judgement, release = health.judgements.get(instance.id), releases.get(instance.id)
    return {
        "cell": cell.cell,
        "plan": instance.plan.value,
        "region": cell.region,
        "release": release.id if release else UNKNOWN,
        "status": instance.status.value,
        "user": instance.user,
        **({"health": judgement.condition.value} if judgement else {}),
    }
