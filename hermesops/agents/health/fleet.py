"""The health of instances from what the registry has recorded; nobody is asked."""

import math
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from operator import attrgetter
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
from hermesops.model.fleet.health import Condition, GatewayHealth, Judgement
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

_Facts = tuple[str, GatewayHealth | None, int | None, tuple[str, ...]]
"""The arguments of ``_Recorded.judge``."""

_user = attrgetter("instance.user")


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


@dataclass(frozen=True, slots=True)
class JudgedInstance:
    """An instance that should run, and how it is."""

    cell: CellName
    instance: RecordedInstance
    judgement: Judgement


def fleet_health(registry: "Registry", now: datetime | None = None, *, cells: Collection[str] = ()) -> FleetHealth:
    """Judge every instance that should run by what is recorded of it.

    Args:
        now: By the registry's clock, which is read where this is not given.
        cells: Names of the cells; none for all.
    """
    recorded = _Recorded.of(registry, now or registry.now())
    samples = registry.health_samples.list_all(since=_oldest(recorded.now))
    tallies = registry.fleet.tally_cells(cells)
    judgements = {
        instance.id: recorded.judge(
            instance.machine_status, instance.reported_gateway, instance.heartbeat_s, samples.get(instance.id, ())
        )
        for cell in tallies
        for instance in cell.instances
        if instance.status is InstanceStatus.RUNNING
    }
    return FleetHealth(tallies, judgements, recorded.listed_at)


def recorded_health(registry: "Registry", instance: "Instance") -> Judgement | None:
    """Judge one instance as ``fleet_health`` does, without reading the others; ``None`` for one that should not run."""
    if instance.status is not InstanceStatus.RUNNING:
        return None
    recorded = _Recorded.of(registry, registry.now())
    return recorded.judge(
        registry.observations.status_of(instance.machine_id) if instance.machine_id else "",
        instance.reported_gateway,
        _heartbeat_s(instance.last_heartbeat),
        registry.health_samples.list([instance.id], since=_oldest(recorded.now))[instance.id],
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
    now = whole_second(registry.now())
    recorded = registry.health_samples.list([instance.id], since=_oldest(now))[instance.id]
    answer = (AgentFact(observation.gateway, 0.0),) if observation.gateway else ()
    beat_s = _age_s(_heartbeat_s(instance.last_heartbeat), now)
    is_up = observation.machine is not None and observation.machine.is_up
    return judge(
        HealthFacts(
            MachineFact(observation.machine.status.value if observation.machine else GONE, 0.0)
            if is_vendor_known
            else None,
            (*answer, *_reported(instance.reported_gateway, beat_s), *agent_facts(recorded, now)),
            beat_s,
            node_problem=_node_problem(observation),
            is_unanswered=is_up and observation.node is None,
            unread_s=_unread_s(registry, now),
        )
    )


def selected(health: FleetHealth, conditions: Collection[Condition]) -> tuple[JudgedInstance, ...]:
    """The instances in one of these conditions, the worst condition first, then by user."""
    judged: defaultdict[Condition, list[JudgedInstance]] = defaultdict(list)
    for cell in health.cells if conditions else ():
        for instance in cell.instances:
            judgement = health.judgements.get(instance.id)
            if judgement and judgement.condition in conditions:
                judged[judgement.condition].append(JudgedInstance(cell.cell, instance, judgement))
    return tuple(instance for condition in Condition for instance in sorted(judged[condition], key=_user))


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


def whole_second(now: datetime) -> datetime:
    """The time of a judgement: heartbeats have whole seconds too, so a state keeps its beginning at each look."""
    return now.replace(microsecond=0)


@dataclass(frozen=True)
class _Recorded:
    """Judges instances by what is recorded of them; the same facts once, as thousands have the same in a large fleet.

    Attributes:
        now: A whole second.
        unread_s: As in ``HealthFacts``.
    """

    now: datetime
    listed_at: datetime | None
    unread_s: float
    _judged: "dict[_Facts, Judgement]" = field(default_factory=dict)

    @classmethod
    def of(cls, registry: "Registry", now: datetime) -> "_Recorded":
        now = whole_second(now)
        return cls(now, registry.observations.listed_at(), _unread_s(registry, now))

    def judge(
        self, machine: str, gateway: GatewayHealth | None, heartbeat_s: int | None, samples: tuple[str, ...]
    ) -> Judgement:
        """Judge an instance that should run.

        Args:
            machine: Status of its machine in the vendor's last listing.
            heartbeat_s: Unix time of its last heartbeat.
        """
        facts = machine, gateway, heartbeat_s, samples
        judgement = self._judged.get(facts)
        if judgement is None:
            judgement = self._judged[facts] = judge(self._facts(*facts))
        return judgement

    def _facts(
        self, machine: str, gateway: GatewayHealth | None, heartbeat_s: int | None, samples: tuple[str, ...]
    ) -> HealthFacts:
        age_s = _age_s(heartbeat_s, self.now)
        return HealthFacts(
            None if self.listed_at is None else MachineFact(machine, age_of(self.listed_at, self.now)),
            (*_reported(gateway, age_s), *agent_facts(samples, self.now)),
            age_s,
            unread_s=self.unread_s,
        )


def _oldest(now: datetime) -> datetime:
    return now - timedelta(seconds=ANSWER_S)


def _unread_s(registry: "Registry", now: datetime) -> float:
    """Seconds for which nobody has read heartbeats: only a monitor records them."""
    work = registry.operations.background()
    if work.monitor:
        return 0.0
    return math.inf if work.monitor_at is None else max(0.0, age_of(work.monitor_at, now))


def _heartbeat_s(at: datetime | None) -> int | None:
    """The Unix time of a heartbeat, whole seconds."""
    return None if at is None else math.floor(at.timestamp())


def _age_s(heartbeat_s: int | None, now: datetime) -> float | None:
    return None if heartbeat_s is None else now.timestamp() - heartbeat_s


def _reported(gateway: GatewayHealth | None, age_s: float | None) -> tuple[AgentFact, ...]:
    """The gateway's health in the machine's last heartbeat."""
    return () if gateway is None or age_s is None else (AgentFact(gateway, age_s),)


def _node_problem(observation: "Observation") -> str:
    if observation.node is None or observation.own_node:
        return "its gateway is fenced" if observation.own_node and observation.own_node.fenced else ""
    return (
        "its machine is personalised for another instance"
        if observation.node.instance_id
        else "its machine is not personalised"
    )
