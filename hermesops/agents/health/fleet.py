"""The health of instances from what the registry has recorded; nobody is asked."""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING

from hermesops.agents.health.judgement import (
    ANSWER_S,
    AgentFact,
    HealthFacts,
    MachineFact,
    age_of,
    agent_facts,
    judge,
)
from hermesops.model.fleet.cell import parse_cell
from hermesops.model.fleet.health import Condition, Judgement
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.fleet.overview import GONE, CellTally, RecordedInstance
from hermesops.model.fleet.selector import Selector
from hermesops.model.ids import CellName, InstanceId

if TYPE_CHECKING:
    from hermesops.agents.instances.observation import Observation
    from hermesops.model.fleet.instance import Instance
    from hermesops.store.registry import Registry


SELECTABLE = frozenset({"cell", "plan", "status", "user"})
"""Fields of ``--where``."""


@dataclass(frozen=True)
class FleetHealth:
    """All cells, and how their instances are.

    Attributes:
        judgements: Of instances that should run, and of no others.
        listed_at: When JustAVPS last listed all machines; ``None`` for never.
    """

    cells: tuple[CellTally, ...]
    judgements: Mapping[InstanceId, Judgement]
    listed_at: datetime | None

    @property
    def ids(self) -> frozenset[InstanceId]:
        """The ids of the instances in all cells."""
        return frozenset(instance.id for cell in self.cells for instance in cell.instances)


@dataclass(frozen=True)
class JudgedInstance:
    """An instance that should run, and how it is."""

    cell: CellName
    instance: RecordedInstance
    judgement: Judgement


def fleet_health(registry: "Registry") -> FleetHealth:
    """Judge every instance that should run by what is recorded of it."""
    cells, listed_at, now = registry.fleet.tally_cells(), registry.observations.listed_at(), registry.now()
    samples = registry.health_samples.list_all(since=_oldest(now))
    listed_s = None if listed_at is None else age_of(listed_at, now)
    unread_s = _unread_s(registry, now)
    judge_once = cache(judge)  # thousands have the same facts where nothing but their machines was listed
    judgements = {
        instance.id: judge_once(
            _recorded_facts(
                instance,
                None if listed_s is None else MachineFact(instance.machine_status, listed_s),
                samples.get(instance.id, ()),
                unread_s=unread_s,
                now=now,
            )
        )
        for cell in cells
        for instance in cell.instances
        if instance.status is InstanceStatus.RUNNING
    }
    return FleetHealth(cells, judgements, listed_at)


def recorded_health(registry: "Registry", instance: "Instance") -> Judgement | None:
    """Judge one instance as ``fleet_health`` does, without reading the others; ``None`` for one that should not run."""
    if instance.status is not InstanceStatus.RUNNING:
        return None
    now, listed_at = registry.now(), registry.observations.listed_at()
    status = registry.observations.status_of(instance.machine_id) if instance.machine_id else ""
    return judge(
        _recorded_facts(
            instance,
            None if listed_at is None else MachineFact(status, age_of(listed_at, now)),
            registry.health_samples.list([instance.id], since=_oldest(now))[instance.id],
            unread_s=_unread_s(registry, now),
            now=now,
        )
    )


def observed_health(
    registry: "Registry", observation: "Observation", *, is_vendor_known: bool = True
) -> Judgement | None:
    """Judge an instance that was asked just now, recorded facts included; ``None`` for one that should not run.

    Args:
        is_vendor_known: ``False`` where JustAVPS did not answer: then only recorded facts count.
    """
    instance = observation.instance
    if instance.status is not InstanceStatus.RUNNING:
        return None
    now = registry.now()
    recorded = registry.health_samples.list([instance.id], since=_oldest(now))[instance.id]
    answer = (AgentFact(observation.gateway, 0.0),) if observation.gateway else ()
    is_up = observation.machine is not None and observation.machine.is_up
    return judge(
        HealthFacts(
            MachineFact(observation.machine.status.value if observation.machine else GONE, 0.0)
            if is_vendor_known
            else None,
            (*answer, *_reported(instance, now), *agent_facts(recorded, now)),
            _heartbeat_s(instance.last_heartbeat, now),
            node_problem=_node_problem(observation),
            is_unanswered=is_up and observation.node is None,
            unread_s=_unread_s(registry, now),
        )
    )


def selected(health: FleetHealth, conditions: Collection[Condition]) -> tuple[JudgedInstance, ...]:
    """The instances in one of these conditions, the worst condition first, then by user."""
    order = list(Condition)
    judged = [
        JudgedInstance(cell.cell, instance, judgement)
        for cell in health.cells
        for instance in cell.instances
        if (judgement := health.judgements.get(instance.id)) and judgement.condition in conditions
    ]
    return tuple(
        sorted(
            judged,
            key=lambda judged_instance: (
                order.index(judged_instance.judgement.condition),
                judged_instance.instance.user,
            ),
        )
    )


def narrowed(health: FleetHealth, selector: Selector) -> FleetHealth:
    """Reduce the health of a fleet to the instances that match a selector; machines without an instance are dropped."""
    cells = (
        replace(
            cell,
            instances=tuple(
                instance
                for instance in cell.instances
                if selector.takes(
                    {"cell": cell.cell, "plan": instance.plan, "status": instance.status, "user": instance.user}
                )
            ),
            unassigned={},
        )
        for cell in health.cells
    )
    populated = tuple(cell for cell in cells if cell.instances)
    ids = {instance.id for cell in populated for instance in cell.instances}
    judgements = {instance_id: judgement for instance_id, judgement in health.judgements.items() if instance_id in ids}
    return FleetHealth(populated, judgements, health.listed_at)


def fleet_selector(registry: "Registry", where: str, *, fields: frozenset[str] = SELECTABLE) -> Selector:
    """The instances that ``--where`` means; users by any of their names.

    Args:
        fields: Which it may name.

    Raises:
        UsageError: It cannot be read, or names a field, user or cell that is not there.
    """
    selector = Selector.parse(where, fields=fields)
    for cell in sorted(selector.values("cell")):
        registry.cells.get(parse_cell(cell))
    users = frozenset(registry.instances.find(user).title for user in selector.values("user"))
    return Selector({**selector.conditions, **({"user": users} if users else {})})


def _recorded_facts(
    instance: "RecordedInstance | Instance",
    machine: MachineFact | None,
    samples: Iterable[str],
    *,
    unread_s: float,
    now: datetime,
) -> HealthFacts:
    return HealthFacts(
        machine,
        (*_reported(instance, now), *agent_facts(samples, now)),
        _heartbeat_s(instance.last_heartbeat, now),
        unread_s=unread_s,
    )


def _oldest(now: datetime) -> datetime:
    return now - timedelta(seconds=ANSWER_S)


def _unread_s(registry: "Registry", now: datetime) -> float:
    """Seconds for which nobody has read heartbeats: only a monitor records them."""
    work = registry.operations.background()
    if work.monitor:
        return 0.0
    return math.inf if work.monitor_at is None else max(0.0, age_of(work.monitor_at, now))


def _heartbeat_s(at: datetime | None, now: datetime) -> float | None:
    return None if at is None else age_of(at, now)


def _reported(instance: "RecordedInstance | Instance", now: datetime) -> tuple[AgentFact, ...]:
    """The gateway's health in the machine's last heartbeat."""
    if instance.last_heartbeat is None or instance.reported_gateway is None:
        return ()
    return (AgentFact(instance.reported_gateway, age_of(instance.last_heartbeat, now)),)


def _node_problem(observation: "Observation") -> str:
    if observation.node is None or observation.own_node:
        return "its gateway is fenced" if observation.own_node and observation.own_node.fenced else ""
    return (
        "its machine is personalised for another instance"
        if observation.node.instance_id
        else "its machine is not personalised"
    )
