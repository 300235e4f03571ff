"""Decides about machines that send no heartbeats. Pure: no clock, no network, no database.

A machine is rebooted or replaced only when every sign says that it is dead: three heartbeats are missing, JustAVPS says
what became of the machine, and it answers neither by toolbox nor by proxy. What is not known is never taken for dead.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from hermesops.automation.monitor.facts import STOPPED, FleetFacts, InstanceFacts, PastRepair, span, suspicion
from hermesops.base.narration import counted
from hermesops.model.fleet.overview import GONE, READY, RepairKind
from hermesops.model.ids import CellName, InstanceId, OperationId

SETTLE_S = 180.0
"""Seconds after a repair in which heartbeats may come back; nothing further is done then."""

REST_S = 600.0
"""Seconds from one reboot of a machine to the next; twice as many after each further one of the last day."""

GONE_S = 60.0
"""Seconds for which the vendor must have listed no such machine; a new one may be missing for as long."""

FAILED_REBOOTS = 2
"""Reboots in a row after which a machine that still does not answer is replaced."""

ASKS_AT_ONCE = 20
"""How many machines are asked in one pass; those not repaired lately come first, then those silent for longest."""

_KEPT_SHARE = 0.4
"""Of a cell's repairs, and of the fleet's, what is kept for instances that were not repaired within a day.

Machines that play dead again and again use up the rest.
"""

_HOUR_S, _DAY_S = 3_600.0, 86_400.0

_AboutT = TypeVar("_AboutT", bound="About")


class Actions(StrEnum):
    """Actions that the monitor may take by itself."""

    NONE = "none"
    RESTART = "restart"
    ALL = "all"


@dataclass(frozen=True)
class Policy:
    """The limits.

    Attributes:
        reboots_per_hour: Of one instance.
        replacements_per_day: Of one instance.
        cell_repairs_per_hour: Instances of one cell; a second repair of the same one is within its own limits.
        repairs_per_hour: Instances in all.
        silent_share: Share of the instances, or of a cell's, that may be silent at once; above it nothing is repaired.
    """

    actions: Actions = Actions.RESTART
    reboots_per_hour: int = 2
    replacements_per_day: int = 1
    cell_repairs_per_hour: int = 5
    repairs_per_hour: int = 20
    silent_share: float = 0.2


@dataclass(frozen=True)
class About:
    """A decision about one instance.

    Attributes:
        why: In plain words with figures.
    """

    instance_id: InstanceId
    user: str
    why: str


class Ask(About):
    """Ask the machine by toolbox and by proxy."""


class Start(About):
    """Start the machine, which is switched off."""


class Reboot(About):
    """Decision to reboot the machine of an instance through JustAVPS."""


class Replace(About):
    """Restore the newest backup onto a new machine; the old one is fenced and kept."""


class LeaveAlone(About):
    """Do nothing about a machine that seems dead."""


class Alert(About):
    """A person has to see to it."""


@dataclass(frozen=True)
class Continue:
    """Go on with a repair that was left unfinished."""

    operation_id: OperationId


Repairing = Start | Reboot | Replace
Decision = Ask | Repairing | LeaveAlone | Alert | Continue


class StopReason(StrEnum):
    """Why nothing more is repaired: of the fleet, or of a cell."""

    FLEET_SILENT = "fleet_silent"
    CELL_SILENT = "cell_silent"
    FLEET_LIMIT = "fleet_limit"
    CELL_LIMIT = "cell_limit"
    ASKING_BROKEN = "asking_broken"


@dataclass(frozen=True)
class Verdict:
    """The decisions about the fleet that follow from the facts.

    Attributes:
        stopped: Why repairs that seem needed are not made.
        suspects: How many machines seem dead.
    """

    decisions: tuple[Decision, ...] = ()
    stopped: Mapping[StopReason, str] = field(default_factory=dict)
    suspects: int = 0

    @property
    def repairs(self) -> tuple[Repairing, ...]:
        """Instances to start, reboot or replace."""
        return tuple(decision for decision in self.decisions if isinstance(decision, Start | Reboot | Replace))

    @property
    def asks(self) -> tuple[Ask, ...]:
        """Decisions to probe an instance by toolbox and proxy."""
        return tuple(decision for decision in self.decisions if isinstance(decision, Ask))


def decide(fleet: FleetFacts, policy: Policy) -> Verdict:
    """Decide about every instance that seems dead; the others get no decision."""
    suspects = [
        (instance, why)
        for instance in fleet.instances
        if (why := suspicion(instance, knows_heartbeats=fleet.knows_heartbeats))
    ]
    repaired = {repair.instance_id for repair in fleet.repairs}
    # Not repaired within the day first, then those that did not answer when they were asked last, then silent for
    # longest; of these one that never sent a heartbeat comes last.
    suspects.sort(key=lambda pair: (pair[0].id in repaired, pair[0].was_alive, -(pair[0].silence_s or 0.0), pair[0].id))
    judging = _Judging(fleet, policy, [instance for instance, _ in suspects])
    decisions = [judging.about(instance, why) for instance, why in suspects]
    is_allowed = policy.actions is not Actions.NONE and StopReason.FLEET_SILENT not in judging.stopped
    left = [Continue(operation) for operation in fleet.unfinished] if is_allowed else []
    return Verdict((*left, *decisions), dict(judging.stopped), len(suspects))


def most_silent(share: float, instances: int) -> int:
    """How many of so many instances may be silent at once; above it they have one cause, and nothing is repaired."""
    return max(1, math.floor(share * instances))


class _Judging:
    """One pass over what seems dead; counts what it decides, so that limits hold within a pass too."""

    def __init__(self, fleet: FleetFacts, policy: Policy, suspects: Sequence[InstanceFacts]) -> None:
        self._fleet = fleet
        self._policy = policy
        self._asks = 0
        self.stopped: dict[StopReason, str] = {}
        self._of: dict[InstanceId, list[PastRepair]] = {}
        cells = {instance.id: instance.cell for instance in fleet.instances}
        self._in_hour: dict[InstanceId, CellName | None] = {}
        for repair in fleet.repairs:
            self._of.setdefault(repair.instance_id, []).append(repair)
            if repair.began_s <= _HOUR_S:
                self._in_hour[repair.instance_id] = cells.get(repair.instance_id)
        idle = Counter(instance.cell for instance in fleet.instances if not instance.busy)
        # Machines that answer do not count: else anyone who blocks heartbeats could stop all repairs.
        silent = Counter(instance.cell for instance in suspects if not instance.answered)
        allowed = most_silent(policy.silent_share, idle.total())
        if silent.total() > allowed:
            self.stopped[StopReason.FLEET_SILENT] = (
                f"{silent.total()} of {idle.total()} instances seem dead at once, which is more than {allowed}: "
                "that is rather the network or the monitoring"
            )
        self._silent_cells = self._above_share(silent, idle)
        # An earlier answer must neither page nor start a repair: the network may have failed since.
        unproved = Counter(
            instance.cell for instance in suspects if instance.answers is None or not instance.answers.is_alive
        )
        self._unproved_cells = self._above_share(unproved, idle)
        if unproved.total() > allowed:
            self._unproved_cells |= unproved.keys()
        self._asks_again = bool(self._unproved_cells) and any(
            instance.answers is None and instance.asked_s is None and not instance.was_alive for instance in suspects
        )

    def _above_share(self, silent: Counter[CellName], idle: Counter[CellName]) -> set[CellName]:
        """Cells of which too many are silent."""
        share = self._policy.silent_share
        return {cell for cell, count in silent.items() if count > max(2, math.floor(share * idle[cell]))}

    def about(self, instance: InstanceFacts, why: str) -> Decision:
        """The decision about one that seems dead."""
        if instance.answers is None:
            return self._ask(instance, why)
        if instance.answers.is_alive:
            by = " and ".join(
                way
                for way, answer in (("toolbox", instance.answers.toolbox), ("proxy", instance.answers.proxy))
                if answer == "yes"
            )
            return _about(Alert, instance, f"monitoring is broken: {why}, though it answers by {by}")
        if not instance.answers.machine or not instance.answers.is_silent:
            return _about(LeaveAlone, instance, f"{why}; it could not be asked by both ways")
        repair = self._wanted(instance, why)
        if isinstance(repair, LeaveAlone | Alert):
            return repair
        if refusal := self._refusal(instance, repair):
            return _about(LeaveAlone, instance, f"{repair.why}; {refusal}")
        self._in_hour[instance.id] = instance.cell
        return repair

    def _ask(self, instance: InstanceFacts, why: str) -> Ask | LeaveAlone:
        if instance.asked_s is not None and not (self._asks_again and instance.was_alive):
            return _about(LeaveAlone, instance, f"{why}; it was asked {span(instance.asked_s)} ago")
        if self._asks >= ASKS_AT_ONCE:
            return _about(LeaveAlone, instance, f"{why}; others are asked first")
        self._asks += 1
        return _about(Ask, instance, why)

    def _wanted(self, instance: InstanceFacts, why: str) -> Repairing | LeaveAlone | Alert:
        """The repair that would help, without limits."""
        machine = instance.answers.machine if instance.answers else ""
        if machine == STOPPED:
            return self._permitted(_about(Start, instance, f"its machine is switched off, {why}"))
        if machine not in {READY, GONE}:
            return _about(
                LeaveAlone, instance, f"{why}; JustAVPS calls its machine {machine}: it may recover by itself"
            )
        if not self._fleet.knows_heartbeats:
            return _about(LeaveAlone, instance, f"{why}; whether heartbeats come is not known")
        if machine == GONE:
            if instance.gone_s is None or instance.gone_s < GONE_S:
                return _about(
                    LeaveAlone, instance, f"{why}; JustAVPS has not listed its machine for less than {GONE_S:g} s"
                )
            return self._replacement(instance, f"its machine is gone at JustAVPS for {span(instance.gone_s)}")
        if instance.silence_s is None:
            return _about(LeaveAlone, instance, f"{why}; it never sent a heartbeat")
        dead = f"{why}, and it answers neither by toolbox nor by proxy"
        if self._failed_reboots(instance) >= FAILED_REBOOTS:
            return self._replacement(instance, f"{dead}, {FAILED_REBOOTS} reboots did not help")
        return self._permitted(_about(Reboot, instance, dead))

    def _permitted(self, repair: Repairing) -> Repairing | Alert:
        least = Actions.ALL if isinstance(repair, Replace) else Actions.RESTART
        if self._policy.actions in {least, Actions.ALL}:
            return repair
        verb = type(repair).__name__.lower()
        words = f"{repair.why}; the monitor may not {verb} it (setting monitoring.actions)"
        return Alert(repair.instance_id, repair.user, words)

    def _replacement(self, instance: InstanceFacts, why: str) -> Repairing | Alert:
        if instance.backup_s is None:
            return _about(Alert, instance, f"{why}, and there is no backup of it")
        return self._permitted(
            _about(Replace, instance, f"{why}; its newest backup is of {span(instance.backup_s)} ago")
        )

    def _refusal(self, instance: InstanceFacts, repair: Repairing) -> str:
        """Why the repair is not made now; empty if it may be made."""
        if StopReason.FLEET_SILENT in self.stopped:
            return self.stopped[StopReason.FLEET_SILENT]
        if instance.cell in self._silent_cells:
            return self._stop(StopReason.CELL_SILENT, f"too many of {instance.cell} seem dead at once")
        if instance.cell in self._unproved_cells:
            return "others that send no heartbeats answered before, and are asked again first"
        if not isinstance(repair, Start) and self._fleet.asking_works is False:
            return self._stop(
                StopReason.ASKING_BROKEN, "machines that do send heartbeats do not answer by both ways either"
            )
        if own := self._own_limit(instance, repair):
            return own
        others = [cell for instance_id, cell in self._in_hour.items() if instance_id != instance.id]
        limits = (
            (
                StopReason.CELL_LIMIT,
                others.count(instance.cell),
                self._policy.cell_repairs_per_hour,
                f" in {instance.cell}",
            ),
            (StopReason.FLEET_LIMIT, len(others), self._policy.repairs_per_hour, ""),
        )
        for reason, used, most, where in limits:
            if used >= most:
                return self._stop(reason, f"{used} instances repaired{where} within an hour")
            if instance.id in self._of and used >= most - math.floor(_KEPT_SHARE * most):
                return f"{used} instances repaired{where} within an hour, and the rest is for those not repaired lately"
        return ""

    def _own_limit(self, instance: InstanceFacts, repair: Repairing) -> str:
        past = sorted(self._of.get(instance.id, []), key=lambda repair: repair.began_s)
        if not past:
            return ""
        ended_s = past[0].began_s if past[0].ended_s is None else past[0].ended_s
        if ended_s < SETTLE_S:
            return f"it was repaired {span(ended_s)} ago"
        kind = RepairKind.REPLACE if isinstance(repair, Replace) else RepairKind.REBOOT
        same = [repair.began_s for repair in past if repair.kind is kind and repair.began_s <= _DAY_S]
        if kind is RepairKind.REPLACE:
            is_over = len(same) >= self._policy.replacements_per_day
            return f"it was replaced {counted(len(same), 'time')} within a day" if is_over else ""
        within = sum(began_s <= _HOUR_S for began_s in same)
        if within >= self._policy.reboots_per_hour:
            return f"it was rebooted {counted(within, 'time')} within an hour"
        if same and same[0] < (rest_s := REST_S * 2.0 ** min(len(same) - 1, 16)):
            return f"it was rebooted {span(same[0])} ago, and the next time is after {span(rest_s)}"
        return ""

    def _failed_reboots(self, instance: InstanceFacts) -> int:
        """How many of its last reboots in a row failed."""
        past = sorted(self._of.get(instance.id, []), key=lambda repair: repair.began_s)
        count = 0
        for repair in past:
            if repair.kind is not RepairKind.REBOOT or not repair.has_failed:
                break
            count += 1
        return count

    def _stop(self, reason: StopReason, why: str) -> str:
        self.stopped.setdefault(reason, why)
        return why


def _about(kind: type[_AboutT], instance: InstanceFacts, why: str) -> _AboutT:
    return kind(instance.id, instance.user, why)
