"""Facts about instances that should run: ages of heartbeats, answers, and past repairs. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hermesops.model.fleet.health import SILENT_S, Answers
from hermesops.model.fleet.overview import GONE, Repair, RepairKind
from hermesops.model.ids import CellName, InstanceId, OperationId

STOPPED = "stopped"
"""The vendor API's status of a machine that is switched off."""

_HOUR_S, _DAY_S = 3_600.0, 86_400.0


@dataclass(frozen=True, slots=True)
class InstanceFacts:
    """Facts about one instance that should run. Ages are in seconds before now.

    Attributes:
        machine: The vendor's status in its last listing, ``model.fleet.GONE``, or empty.
        heartbeat_s: Age of the last heartbeat; ``None`` where none ever came.
        life_s: Age of the last sign of life of any kind, heartbeats included; ``None`` where none ever came.
        gone_s: For how long the vendor has listed no such machine; ``None`` where it does.
        busy: Why nobody else may touch it now; empty where nothing is under way.
        backup_s: Age of its newest backup; ``None`` for none.
        asked_s: Seconds since this monitor asked the machine last; ``None`` for not lately.
        was_alive: Whether it answered by a way of its own when this monitor asked it last.
        answers: What came of asking it in this pass; ``None`` before.
    """

    id: InstanceId
    user: str
    cell: CellName
    machine: str = ""
    heartbeat_s: float | None = None
    life_s: float | None = None
    gone_s: float | None = None
    busy: str = ""
    backup_s: float | None = None
    asked_s: float | None = None
    was_alive: bool = False
    answers: Answers | None = None

    @property
    def silence_s(self) -> float | None:
        """Seconds since the last sign of life; ``None`` if there was none, or if it is unknown."""
        return self.life_s if self.life_s is not None and math.isfinite(self.life_s) else None

    @property
    def answered(self) -> bool:
        """Whether it answered by toolbox or proxy when it was asked last, heartbeats or not."""
        return self.was_alive if self.answers is None else self.answers.is_alive


@dataclass(frozen=True, slots=True)
class PastRepair:
    """A repair of the last day; ages in seconds. ``ended_s`` is ``None`` while it has not ended."""

    instance_id: InstanceId
    kind: RepairKind
    began_s: float
    ended_s: float | None = None
    has_failed: bool = False

    @classmethod
    def of(cls, repair: Repair, now_s: float) -> "PastRepair":
        """The repair as it looks at that moment, in seconds since 1970."""
        ended_s = None if repair.ended_at is None else now_s - repair.ended_at.timestamp()
        return cls(repair.instance_id, repair.kind, now_s - repair.began_at.timestamp(), ended_s, repair.has_failed)


@dataclass(frozen=True)
class FleetFacts:
    """All instances that should run.

    Attributes:
        repairs: Of the last day.
        unfinished: Repairs that the monitor began and nobody works on.
        knows_heartbeats: Whether Prometheus answers, and has for as long as three heartbeats take.
        asking_works: Whether machines that do send heartbeats answer by both ways; ``None`` where none was asked.
    """

    instances: Sequence[InstanceFacts]
    repairs: Sequence[PastRepair] = ()
    unfinished: Sequence[OperationId] = ()
    knows_heartbeats: bool = True
    asking_works: bool | None = None


def suspicion(instance: InstanceFacts, *, knows_heartbeats: bool) -> str:
    """Why an instance seems dead; empty where it does not, or where somebody works on it."""
    silence_s = instance.silence_s
    if instance.busy or (silence_s is not None and silence_s <= SILENT_S):
        return ""
    reasons = []
    if knows_heartbeats and silence_s is not None:
        reasons.append(f"no heartbeat for {span(silence_s)}")
    if instance.machine in {STOPPED, GONE}:
        reasons.append(f"JustAVPS lists its machine as {instance.machine}")
    return ", ".join(reasons)


def answered(fleet: FleetFacts, answers: Mapping[InstanceId, Answers], *, asking_works: bool | None) -> FleetFacts:
    """The facts with the answers of asked machines."""
    instances = tuple(
        replace(instance, answers=answers[instance.id]) if instance.id in answers else instance
        for instance in fleet.instances
    )
    return replace(fleet, instances=instances, asking_works=asking_works)


def span(seconds: float) -> str:
    """A length of time in words, as ``95 s``, ``12 min`` or ``3 h``."""
    for unit, length in (("d", _DAY_S), ("h", _HOUR_S), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0.0):.0f} s"
