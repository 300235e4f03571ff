"""The progress of a rollout: figures with pace and time left, and lines that name targets. Pure; no gate uses it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean

from hermesops.agents.rollout.gates.judgement import judge, soaked_at
from hermesops.agents.rollout.ports import HealthObservation, Records
from hermesops.agents.rollout.records.events import RolloutStarted, StateChanged, WaitBegun
from hermesops.agents.rollout.steps.actions import (
    AskHook,
    Change,
    Decision,
    DeployTargets,
    Drill,
    Notify,
    RollBackTargets,
    UpdateTargets,
    Wait,
)
from hermesops.agents.rollout.steps.observation import RolloutObservation, count_states, entered_stage, was_tried
from hermesops.agents.rollout.target_names import names
from hermesops.model.rollout.records import RolloutState, RolloutTarget, TargetState
from hermesops.model.rollout.spec import Spec

_PAST = frozenset({TargetState.FAILED, TargetState.TIMED_OUT, TargetState.ROLLED_BACK})
"""States whose names are sentences already: ``ada failed``."""


@dataclass(frozen=True)
class StageProgress:
    """One stage.

    Attributes:
        number: From 1.
        batch: Number of the batch that was begun last, from 1; 0 before the first.
    """

    number: int
    targets: int
    states: Mapping[TargetState, int]
    batch: int
    batches: int

    @property
    def reached(self) -> int:
        """How many run the release and are well."""
        return sum(count for state, count in self.states.items() if state.is_well)


@dataclass(frozen=True)
class GateFigures:
    """Figures of the gates at one moment, each with its threshold.

    Attributes:
        changed: Targets with an outcome; ``well`` of them run the release, ``failed`` of them failed.
        stops_at: Failures at which the rollout halts.
        soaked_s: Seconds that the last soaking target has soaked, of ``soak_s``; 0 of 0 where none soaks.
    """

    changed: int
    well: int
    failed: int
    stops_at: int
    soaked_s: float = 0.0
    soak_s: float = 0.0


@dataclass(frozen=True)
class Since:
    """The present state of a rollout: its author, its reason, and when it began."""

    at: datetime
    who: str
    why: str


@dataclass(frozen=True)
class RolloutProgress:
    """A rollout.

    Attributes:
        per_minute: Targets with an outcome per minute since the first was touched; 0 before.
        gates: Evidence of the last decision that judged the gates.
        figures: Figures of the gates now.
        state_since: Since when it is in its state; of a running one, since its start.
        waits_for: Why it does nothing just now; empty while it does something.
        left_s: Seconds until the end: batches to come at the pace of those that ended, and soaks; ``None`` before the
            first batch has ended, and while the rollout waits for an operator.
    """

    stages: tuple[StageProgress, ...]
    targets: int
    touched: int
    reached: int
    failed: int
    per_minute: float
    left_s: float | None
    gates: Mapping[str, object]
    figures: GateFigures
    state_since: Since
    now: datetime
    waits_for: str = ""


def progress_of(records: Records, now: datetime) -> RolloutProgress:
    """Compute the progress of a rollout from its records: stages, rate, durations and remaining time."""
    targets, spec = records.targets, records.rollout.spec
    stages = tuple(_stage(number, targets) for number in sorted({target.stage for target in targets}))
    touched = [target for target in targets if target.touched_at is not None]
    ended = sum(not target.state.is_in_flight for target in touched)
    began = min((target.touched_at for target in touched if target.touched_at), default=None)
    minutes = max((now - began).total_seconds() / 60, 1 / 60) if began else 0.0
    per_minute = ended / minutes if minutes else 0.0
    judged = [event for event in records.latest if "failures" in event.evidence]
    left_s = _left_s(targets, spec, now) if records.rollout.state is RolloutState.RUNNING else None
    return RolloutProgress(
        stages=stages,
        targets=len(targets),
        touched=len(touched),
        reached=sum(target.state.is_well for target in targets),
        failed=sum(target.state.has_failed for target in targets),
        per_minute=round(per_minute, 2),
        left_s=None if left_s is None else round(left_s),
        gates=max(judged, key=lambda event: event.id).evidence if judged else {},
        figures=_figures(records, now),
        state_since=state_since(records),
        now=now,
        waits_for=_waits_for(records),
    )


def _figures(records: Records, now: datetime) -> GateFigures:
    rollout, targets = records.rollout, records.targets
    judgement = judge(rollout, targets, HealthObservation(), at_end=False)
    tally = judgement.failures.all
    ends = [
        end for target in targets if target.state is TargetState.SOAKING and (end := soaked_at(target, rollout.spec))
    ]
    soak_s = rollout.spec.soak_s if ends else 0.0
    left_s = max(0.0, (max(ends) - now).total_seconds()) if ends else 0.0
    soaked_s = max(0.0, soak_s - left_s)
    return GateFigures(tally.touched, tally.touched - tally.failed, tally.failed, judgement.stops_at, soaked_s, soak_s)


def state_since(records: Records) -> Since:
    """The author and begin of the present state; of a rollout that runs, of the rollout."""
    rollout = records.rollout
    if rollout.state in {RolloutState.PENDING, RolloutState.RUNNING}:
        started = records.newest(RolloutStarted)
        who, why = (started.event.who, started.event.why) if started else ("", "")
        return Since(rollout.created_at, who or rollout.who, why or rollout.reason)
    changed = records.newest(StateChanged)
    return Since(changed.at if changed else rollout.updated_at, rollout.who, rollout.reason)


def narrate(step: Decision, observation: RolloutObservation) -> str:
    """A step in words, before it is done."""
    where = step.step.targets[0] if isinstance(step.step, DeployTargets) and step.step.targets else None
    return f"{progress_line(_after(step, observation.targets), where)}: {_what(step, observation)}"


def progress_line(targets: Sequence[RolloutTarget], where: RolloutTarget | None = None) -> str:
    """The position of a rollout, as ``stage 1/3, batch 2/4, 3 of 60 healthy``, with failures if there are any.

    Args:
        where: The target whose stage and batch are named; by default those that were begun last.
    """
    counts = count_states(targets)
    parts = [*_place(targets, where), f"{counts.get(TargetState.HEALTHY, 0)} of {len(targets)} healthy"]
    failed = sum(number for state, number in counts.items() if state.has_failed)
    unseen = counts.get(TargetState.UNREACHABLE, 0)
    return ", ".join(
        [*parts, *([f"{failed} failed"] if failed else []), *([f"{unseen} unreachable"] if unseen else [])]
    )


def change_lines(targets: Iterable[RolloutTarget]) -> list[str]:
    """A line for each state and reason, naming the targets that have it."""
    grouped: dict[tuple[TargetState, str], list[RolloutTarget]] = {}
    for target in targets:
        is_silent = target.progress.unwell_since and not target.detail
        reason = "its gateway does not answer" if is_silent else target.detail
        grouped.setdefault((target.state, reason), []).append(target)
    return [_state_line(state, reason, some) for (state, reason), some in grouped.items()]


def _waits_for(records: Records) -> str:
    newest = max(records.latest, key=lambda event: event.id, default=None)
    is_running = records.rollout.state is RolloutState.RUNNING
    return newest.event.why if is_running and newest and isinstance(newest.event, WaitBegun) else ""


def _stage(number: int, targets: tuple[RolloutTarget, ...]) -> StageProgress:
    its = [target for target in targets if target.stage == number]
    begun = [target.batch + 1 for target in its if target.state is not TargetState.WAITING]
    return StageProgress(
        number + 1, len(its), count_states(its), max(begun, default=0), len({target.batch for target in its})
    )


def _left_s(targets: Sequence[RolloutTarget], spec: Spec, now: datetime) -> float | None:
    stages, batches = (
        _grouped(targets, lambda target: target.stage),
        _grouped(targets, lambda target: (target.stage, target.batch)),
    )
    took = [seconds for batch in batches if (seconds := _took_s(batch)) is not None]
    if not took:
        return None
    ahead = sum(_is_ahead(batch) for batch in batches)
    return ahead * (fmean(took) + spec.settle_s) + sum(_soak_left_s(stage, spec, now) for stage in stages)


def _grouped(targets: Sequence[RolloutTarget], key: Callable[[RolloutTarget], object]) -> list[list[RolloutTarget]]:
    groups: dict[object, list[RolloutTarget]] = {}
    for target in targets:
        groups.setdefault(key(target), []).append(target)
    return list(groups.values())


def _is_ahead(targets: Sequence[RolloutTarget]) -> bool:
    return any(
        target.state.is_in_flight or target.state in {TargetState.WAITING, TargetState.DEFERRED} for target in targets
    )


def _took_s(batch: Sequence[RolloutTarget]) -> float | None:
    """Seconds from the first change of a batch to its last outcome; ``None`` before that, and where none changed."""
    began = [target.touched_at for target in batch if target.touched_at]
    ended = [at for target in batch if target.touched_at and (at := target.progress.confirmed_at or target.updated_at)]
    return None if _is_ahead(batch) or not began or not ended else (max(ended) - min(began)).total_seconds()


def _soak_left_s(stage: Sequence[RolloutTarget], spec: Spec, now: datetime) -> float:
    if _is_ahead(stage):
        return spec.soak_s
    ends = [end for target in stage if target.state is TargetState.SOAKING and (end := soaked_at(target, spec))]
    return max(0.0, (max(ends) - now).total_seconds()) if ends else 0.0


def _after(step: Decision, targets: tuple[RolloutTarget, ...]) -> tuple[RolloutTarget, ...]:
    """The targets as they will be after a step that only writes."""
    updated = {target.id: target for target in step.step.targets} if isinstance(step.step, UpdateTargets) else {}
    return tuple(updated.get(target.id, target) for target in targets)


def _place(targets: Sequence[RolloutTarget], where: RolloutTarget | None) -> list[str]:
    stages = max((target.stage for target in targets), default=-1) + 1
    stage = where.stage if where else entered_stage(targets)
    if stage < 0:
        return ["not started"]
    its = [target for target in targets if target.stage == stage]
    begun = [target.batch for target in its if was_tried(target)]
    batch = where.batch if where else max(begun, default=0)
    return [f"stage {stage + 1}/{stages}", f"batch {batch + 1}/{len({target.batch for target in its})}"]


def _what(step: Decision, observation: RolloutObservation) -> str:
    match step.step:
        case DeployTargets(targets=targets) if any(target.state.is_in_flight for target in targets):
            return f"finish the change of {names(targets)}"
        case DeployTargets(targets=targets):
            return f"deploy {observation.rollout.release} to {names(targets)}"
        case RollBackTargets(targets=targets):
            return f"roll back {names(targets)}"
        case UpdateTargets(targets=targets):
            return "; ".join(change_lines(targets))
        case Change(state=state):
            return f"the rollout is {state.replace('_', ' ')}: {step.why}"
        case Notify() | Drill() | AskHook() | Wait():
            return step.why


def _state_line(state: TargetState, reason: str, targets: Sequence[RolloutTarget]) -> str:
    verb = "" if state in _PAST else "is " if len(targets) == 1 else "are "
    return f"{names(targets)} {verb}{state.replace('_', ' ')}{f': {reason}' if reason else ''}"
