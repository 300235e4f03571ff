"""Whom of those that are watched to ask now, and what. Pure: it is told what time it is."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from hermesops.health.sampler import Question
from hermesops.health.samples import HealthSample
from hermesops.model.ids import InstanceId
from hermesops.model.vitals import TurnOutcome

FRESH = timedelta(seconds=10)
"""How long a look says how an instance does that was changed."""

FRESH_CONTROL = timedelta(seconds=30)
"""The same of one that was not."""

_COUNTED = timedelta(hours=1)
"""Of errors, where nobody has counted yet."""

_TURN_SOON = timedelta(seconds=10)
_TURN_EVERY = timedelta(minutes=5)
"""Turns come ever more rarely: after a change each waits as long as the one before came after it, within these."""

_TURN_S = 30.0
_NEVER = datetime.min.replace(tzinfo=UTC)


def stalest(
    some: Sequence[InstanceId],
    held: Mapping[InstanceId, Sequence[HealthSample]],
    begins: Mapping[InstanceId, datetime],
    fresh: datetime,
) -> list[InstanceId]:
    """Those whose last look is too old, or on the other side of the change; the oldest first."""
    last = {whose: held[whose][-1].at if held.get(whose) else _NEVER for whose in some}
    due = (whose for whose in some if last[whose] <= fresh or last[whose] <= begins.get(whose, _NEVER))
    return sorted(due, key=lambda whose: last[whose])


def question(held: Sequence[HealthSample], begin: datetime | None, now: datetime) -> Question:
    """What one is asked: errors since the last look, and a turn where it is time for one.

    Args:
        held: What was read of it.
        begin: Where "after" begins for it; ``None`` while it is all "before".
        now: The present moment.
    """
    counted_from = begin or now - _COUNTED
    same_side = [reading for reading in held if reading.at > counted_from]
    turns = [reading for reading in same_side if reading.outcome is not TurnOutcome.NOT_TAKEN]
    since = same_side[-1].at if same_side else counted_from
    return Question(since, _TURN_S if not turns or _is_time(turns[-1], begin, now) else 0.0)


def _is_time(last: HealthSample, begin: datetime | None, now: datetime) -> bool:
    if last.outcome is TurnOutcome.FAILED:
        return True
    rest = min(max(last.at - begin, _TURN_SOON), _TURN_EVERY) if begin else _TURN_EVERY
    return now - last.at >= rest
