"""The state of the fleet at one moment, from what the registry has recorded; nobody is asked."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from hermesops.agents.health.fleet import (
    FleetHealth,
    JudgedInstance,
    fleet_health,
    fleet_selector,
    narrowed,
    selected,
)
from hermesops.agents.health.trouble import Trouble, foremost, within
from hermesops.model.fleet.health import Condition
from hermesops.model.fleet.instance import Instance
from hermesops.model.fleet.overview import LowOnDisk
from hermesops.model.fleet.selector import Selector
from hermesops.model.operation import BackgroundWork, Operation
from hermesops.model.plan import GB, Plan
from hermesops.model.recovery.backup import RPO, Loss
from hermesops.model.rollout.records import Freeze
from hermesops.settings.sections import MonitoringSettings
from hermesops.store.operations.leases.holder import is_gone
from hermesops.store.registry import Registry

if TYPE_CHECKING:
    from hermesops.observability.telemetry.alerts.shown_alerts import OpenAlert


@dataclass(frozen=True)
class FleetStatus:
    """The fleet, or a part of it, at one moment.

    Attributes:
        instances: Those in one of the conditions that were asked for.
        loss: What backups would lose; ``None`` for a part of the fleet.
        actions: The setting ``monitoring.actions``.
        silent_share: The setting ``monitoring.silent_share``.
        ending: Agents whose termination is scheduled, the first to end first.
        stopped: Operations that have not ended and that no process works on.
        at_work: How many others have not ended.
        trouble: Everything that is wrong or unknown now, the most urgent first, or the first of it.
        unread: Why open alerts are not known; empty where they are, or where there is no monitoring.
        wrong: How many are wrong, in ``trouble`` or not.
        unknown: Of how many agents nothing is known, in ``trouble`` or not.
    """

    health: FleetHealth
    instances: tuple[JudgedInstance, ...]
    loss: Loss | None
    crowded: tuple[LowOnDisk, ...]
    work: BackgroundWork
    actions: str
    silent_share: float
    freezes: tuple[Freeze, ...]
    ending: tuple[Instance, ...]
    stopped: tuple[Operation, ...]
    at_work: int
    now: datetime
    trouble: tuple[Trouble, ...] = ()
    unread: str = ""
    wrong: int = 0
    unknown: int = 0


@dataclass(frozen=True)
class Fleet:
    """Reads the state of the fleet.

    Attributes:
        data_gb: Size of the data volume of each plan, GB.
    """

    registry: Registry
    monitoring: MonitoringSettings
    data_gb: Mapping[Plan, int]

    def selector(self, where: str) -> Selector:
        """The instances that ``--where`` means; users by any of their names.

        Raises:
            UsageError: It cannot be read, or names a field, user or cell that is not there.
        """
        return fleet_selector(self.registry, where)

    def status(
        self,
        selector: Selector,
        conditions: Collection[Condition],
        alerts: "Sequence[OpenAlert]" = (),
        *,
        unread: str = "",
        troubled: Collection[Condition] | None = None,
        most: int | None = None,
        text: str = "",
    ) -> FleetStatus:
        """The state of the instances that a selector takes; of the whole fleet when it has no conditions.

        Args:
            conditions: Instances in one of them are listed.
            alerts: Open alerts of the whole fleet, the most urgent first.
            unread: Why there are none, where they could not be read.
            troubled: As ``conditions`` of ``foremost``.
            most: As there; ``text`` as well.
        """
        registry, is_part = self.registry, bool(selector.conditions)
        now = registry.now()
        health = fleet_health(registry, now, cells=selector.values("cell"))
        loss, crowded = None if is_part else registry.backups.loss(RPO), registry.backups.list_low_on_disk(self._sizes)
        ending, unfinished = registry.instances.list_ending(), registry.operations.unfinished()
        if is_part:
            health = narrowed(health, selector)
            alerts = within(alerts, health)
            users, ids = {instance.user for cell in health.cells for instance in cell.instances}, health.ids
            crowded = tuple(agent for agent in crowded if agent.user in users)
            ending = tuple(instance for instance in ending if instance.id in ids)
            unfinished = tuple(operation for operation in unfinished if operation.instance_id in ids)
        stopped, at_work = at_rest(unfinished, self._leased())
        first = foremost(health, alerts, now, conditions=troubled, most=most, text=text)
        return FleetStatus(
            health=health,
            instances=selected(health, conditions),
            loss=loss,
            crowded=crowded,
            work=registry.operations.background(),
            actions=self.monitoring.actions,
            silent_share=self.monitoring.silent_share,
            freezes=tuple(freeze for freeze in registry.freezes.list() if freeze.holds_at(now)),
            ending=ending,
            stopped=stopped,
            at_work=at_work,
            now=now,
            trouble=first.trouble,
            unread=unread,
            wrong=first.wrong,
            unknown=first.unknown,
        )

    @property
    def _sizes(self) -> Mapping[Plan, int]:
        """Bytes of each plan's data volume."""
        return {plan: gb * GB for plan, gb in self.data_gb.items()}

    def _leased(self) -> frozenset[str]:
        return frozenset(lease.subject for lease in self.registry.leases.list() if not is_gone(lease.holder))


def at_rest(unfinished: Sequence[Operation], leased: Collection[str]) -> tuple[tuple[Operation, ...], int]:
    """Operations that no process works on, and how many others there are. Pure.

    Args:
        leased: Subjects whose lease a living process holds.
    """
    stopped = tuple(operation for operation in unfinished if operation.subject not in leased)
    return stopped, len(unfinished) - len(stopped)
