"""How far a rollout has come, how fast it goes, how long it will take at that. Pure; for people, not for gates."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean

from hermesops.model.rollout import RolloutState, RolloutTarget, TargetState
from hermesops.model.rollout_spec import Spec
from hermesops.rollout.gates.judgement import soaked_at
from hermesops.rollout.observation import count_states
from hermesops.rollout.ports import Records


@dataclass(frozen=True)
class StageProgress:
    """One stage.

    Attributes:
        number: From 1.
        states: How many of its targets are in which state.
        batch: Number of the batch that was begun last, from 1; 0 before the first.
        batches: How many there are.
    """

    number: int
    targets: int
    states: Mapping[TargetState, int]
    batch: int
    batches: int

    @property
    def reached(self) -> int:
        """How many run the release and do well."""
        return sum(count for state, count in self.states.items() if state.is_well)


@dataclass(frozen=True)
class RolloutProgress:
    """The whole.

    Attributes:
        touched: How many machines were told to change.
        per_minute: Targets that came to an end a minute since the first was touched; 0 before.
        left_s: Seconds until the end: batches to come at the pace of those that ended, and soaks; ``None`` before the
            first batch has ended, and where the rollout waits for a person.
        gates: What the gates said last, as events keep it; empty before.
    """

    stages: tuple[StageProgress, ...]
    targets: int
    touched: int
    reached: int
    failed: int
    per_minute: float
    left_s: float | None
    gates: Mapping[str, object]


def progress_of(records: Records, now: datetime) -> RolloutProgress:
    """Look at a rollout as a whole."""
    targets, spec = records.targets, records.rollout.spec
    stages = tuple(_stage(number, targets) for number in sorted({target.stage for target in targets}))
    touched = [target for target in targets if target.touched_at is not None]
    ended = sum(not target.state.is_in_flight for target in touched)
    began = min((target.touched_at for target in touched if target.touched_at), default=None)
    minutes = max((now - began).total_seconds() / 60, 1 / 60) if began else 0.0
    per_minute = ended / minutes if minutes else 0.0
    left_s = _left_s(targets, spec, now) if records.rollout.state is RolloutState.RUNNING else None
    return RolloutProgress(
        stages=stages,
        targets=len(targets),
        touched=len(touched),
        reached=sum(target.state.is_well for target in targets),
        failed=sum(target.state.has_failed for target in targets),
        per_minute=round(per_minute, 2),
        left_s=None if left_s is None else round(left_s),
        gates=_gates(records),
    )


def _stage(number: int, targets: tuple[RolloutTarget, ...]) -> StageProgress:
    its = [target for target in targets if target.stage == number]
    begun = [target.batch + 1 for target in its if target.state is not TargetState.WAITING]
    return StageProgress(
        number + 1, len(its), count_states(its), max(begun, default=0), len({target.batch for target in its})
    )


def _left_s(targets: Sequence[RolloutTarget], spec: Spec, now: datetime) -> float | None:
    stages, batches = _grouped(targets, lambda one: one.stage), _grouped(targets, lambda one: (one.stage, one.batch))
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
    return any(one.state.is_in_flight or one.state in {TargetState.WAITING, TargetState.DEFERRED} for one in targets)


def _took_s(batch: Sequence[RolloutTarget]) -> float | None:
    """Seconds from the first change of a batch to its last outcome; ``None`` before that, and where none changed."""
    began = [one.touched_at for one in batch if one.touched_at]
    ended = [at for one in batch if one.touched_at and (at := one.progress.confirmed_at or one.updated_at)]
    return None if _is_ahead(batch) or not began or not ended else (max(ended) - min(began)).total_seconds()


def _soak_left_s(stage: Sequence[RolloutTarget], spec: Spec, now: datetime) -> float:
    if _is_ahead(stage):
        return spec.soak_s
    ends = [end for one in stage if one.state is TargetState.SOAKING and (end := soaked_at(one, spec))]
    return max(0.0, (max(ends) - now).total_seconds()) if ends else 0.0


def _gates(records: Records) -> Mapping[str, object]:
    heard = [event for event in records.latest if "failures" in event.evidence]
    return max(heard, key=lambda event: event.id).evidence if heard else {}
