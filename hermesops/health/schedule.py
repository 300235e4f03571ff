"""Which watched instances to sample now, and what to ask their nodes. Pure: the time is an argument."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from hermesops.health.samples import HealthSample
from hermesops.model.ids import InstanceId
from hermesops.model.vitals import TurnOutcome

FRESH = timedelta(seconds=10)
"""How long a sample of a changed instance counts."""

FRESH_CONTROL = timedelta(seconds=30)
"""The same of an untouched one."""

_COUNTED = timedelta(hours=1)
"""How far back errors are counted where none were before."""

_TURN_SOON = timedelta(seconds=10)
_TURN_EVERY = timedelta(minutes=5)
"""Turns become rarer: after a change each waits as long as the one before came after it, within these limits."""

_TURN_S = 30.0
_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Question:
    """What one node is asked.

    Attributes:
        since: From when on errors are counted; ``None`` counts none.
        turn_s: Seconds that a turn may take; 0 for no turn.
    """

    since: datetime | None = None
    turn_s: float = 0.0


def stalest(
    some: Sequence[InstanceId],
    stored: Mapping[InstanceId, Sequence[HealthSample]],
    begins: Mapping[InstanceId, datetime],
    fresh: datetime,
) -> list[InstanceId]:
    """Instances whose last sample is too old, or from before the change; the oldest first."""
    last = {each: stored[each][-1].at if stored.get(each) else _NEVER for each in some}
    due = (each for each in some if last[each] <= fresh or last[each] <= begins.get(each, _NEVER))
    return sorted(due, key=lambda each: last[each])


def question(stored: Sequence[HealthSample], begin: datetime | None, now: datetime) -> Question:
    """What a node is asked: errors since its last sample, and a turn where it is time for one.

    Args:
        begin: Where "after" begins for it; ``None`` while all is "before".
    """
    counted_from = begin or now - _COUNTED
    same_side = [sample for sample in stored if sample.at > counted_from]
    turns = [sample for sample in same_side if sample.outcome is not TurnOutcome.NOT_TAKEN]
    since = same_side[-1].at if same_side else counted_from
    return Question(since, _TURN_S if not turns or _is_time(turns[-1], begin, now) else 0.0)


def _is_time(last: HealthSample, begin: datetime | None, now: datetime) -> bool:
    if last.outcome is TurnOutcome.FAILED:
        return True
    rest = min(max(last.at - begin, _TURN_SOON), _TURN_EVERY) if begin else _TURN_EVERY
    return now - last.at >= rest
