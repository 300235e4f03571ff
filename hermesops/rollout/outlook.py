"""How far a rollout has come, how fast it goes, how long it will take at that. Pure; for people, not for gates."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from hermesops.model.rollout import RolloutTarget, TargetState
from hermesops.rollout.ports import Records
from hermesops.rollout.sight import count_states


@dataclass(frozen=True)
class StageOutlook:
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
class Outlook:
    """The whole.

    Attributes:
        touched: How many machines were told to change.
        per_minute: Targets that came to an end a minute since the first was touched; 0 before.
        left_s: Seconds until the end at that rate, soaks included; ``None`` when nothing can be said.
        gates: What the gates said last, as events keep it; empty before.
    """

    stages: tuple[StageOutlook, ...]
    targets: int
    touched: int
    reached: int
    failed: int
    per_minute: float
    left_s: float | None
    gates: Mapping[str, object]


def outlook_of(records: Records, now: datetime) -> Outlook:
    """Look at a rollout as a whole."""
    targets, spec = records.targets, records.rollout.spec
    stages = tuple(_stage(number, targets) for number in sorted({target.stage for target in targets}))
    touched = [target for target in targets if target.touched_at is not None]
    ended = sum(not target.state.is_in_flight for target in touched)
    began = min((target.touched_at for target in touched if target.touched_at), default=None)
    minutes = max((now - began).total_seconds() / 60, 1 / 60) if began else 0.0
    per_minute = ended / minutes if minutes else 0.0
    waiting = sum(target.state in {TargetState.WAITING, TargetState.DEFERRED} for target in targets)
    unsoaked = sum(stage.reached < stage.targets for stage in stages)
    goes_on = records.rollout.state.has_runner
    left_s = waiting / per_minute * 60 + unsoaked * spec.soak_s if per_minute and goes_on else None
    return Outlook(
        stages=stages,
        targets=len(targets),
        touched=len(touched),
        reached=sum(target.state.is_well for target in targets),
        failed=sum(target.state.has_failed for target in targets),
        per_minute=round(per_minute, 2),
        left_s=None if left_s is None else round(left_s),
        gates=_gates(records),
    )


def _stage(number: int, targets: tuple[RolloutTarget, ...]) -> StageOutlook:
    its = [target for target in targets if target.stage == number]
    begun = [target.batch + 1 for target in its if target.state is not TargetState.WAITING]
    return StageOutlook(
        number + 1, len(its), count_states(its), max(begun, default=0), len({target.batch for target in its})
    )


def _gates(records: Records) -> Mapping[str, object]:
    heard = [event for event in records.latest.values() if "failures" in event.evidence]
    return max(heard, key=lambda event: event.id).evidence if heard else {}
