"""Samples, each what ``hermes-node probe`` said once: when to take the next, and the vitals that several amount to.

Pure: the time is an argument.
"""

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Self

from hermesops.errors import Hint, UnavailableError
from hermesops.model.fleet.health import GatewayHealth
from hermesops.model.fleet.vitals import Source, TurnOutcome, Vital, Vitals
from hermesops.model.ids import InstanceId
from hermesops.wire import strict_json

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

_HOUR_S = 3600.0
_ABSENT = frozenset({GatewayHealth.SILENT, GatewayHealth.REFUSED})


@dataclass(frozen=True)
class HealthSample:
    """One answer of one instance's node.

    Attributes:
        since: From when on errors were counted; ``None`` when they were not.
        release: What ``current`` pointed at.
        restarts: How often systemd had started the gateway again by itself since somebody last started it.
        errors: In the log since then; ``None`` where it does not reach back so far.
        turn_s: Seconds that the turn took; ``None`` when none was taken.
        takes_turns: Whether the platform may have its agent take one: not where the user's own provider answers.
    """

    at: datetime
    since: datetime | None
    release: str
    gateway: GatewayHealth
    restarts: int
    errors: int | None
    memory_bytes: int | None
    queue_age_s: float | None
    turn_s: float | None = None
    turn_ok: bool = False
    takes_turns: bool = True

    @classmethod
    def from_json(cls, data: bytes | str) -> Self:
        """Read what the node printed, or what was stored of it.

        Raises:
            UnavailableError: It is something else.
        """
        try:
            return cls._from(strict_json.parse_object(data))
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, OSError) as error:
            raise UnavailableError(
                f"the answer of hermes-node's probe cannot be parsed ({type(error).__name__})",
                hint=Hint("compare the node's version with this one's:", ("instance", "verify", "USER")),
            ) from error

    @classmethod
    def _from(cls, raw: Mapping[str, Any]) -> Self:
        errors, turn, since = raw["errors"], raw["turn"], raw["since"]
        return cls(
            at=_timestamp(raw["at"]),
            since=None if since is None else _timestamp(since),
            release=str(raw["release"] or ""),
            gateway=GatewayHealth(raw["gateway"]),
            restarts=int(raw["restarts"]),
            errors=int(errors["count"]) if errors and errors["complete"] else None,
            memory_bytes=None if raw["memory_bytes"] is None else int(raw["memory_bytes"]),
            queue_age_s=None if raw["queue_age_s"] is None else float(raw["queue_age_s"]),
            turn_s=float(turn["seconds"]) if turn else None,
            turn_ok=bool(turn and turn["ok"]),
            takes_turns=raw.get("takes_turns") is not False,  # nodes of before do not say it
        )

    def to_json(self) -> str:
        """Return the sample as JSON text, in the form in which hermes-node prints it."""
        return json.dumps(
            {
                "at": self.at.timestamp(),
                "since": self.since.timestamp() if self.since else None,
                "release": self.release,
                "gateway": self.gateway.value,
                "restarts": self.restarts,
                "errors": None if self.errors is None else {"count": self.errors, "complete": True},
                "memory_bytes": self.memory_bytes,
                "queue_age_s": self.queue_age_s,
                "turn": None if self.turn_s is None else {"ok": self.turn_ok, "seconds": self.turn_s},
                **({} if self.takes_turns else {"takes_turns": False}),
            },
            sort_keys=True,
        )

    @property
    def is_answering(self) -> bool:
        """Whether the gateway answers, well or not."""
        return self.gateway not in _ABSENT

    @property
    def outcome(self) -> TurnOutcome:
        """How the turn ended; without an answer of the gateway it counts as failed."""
        if not self.is_answering:
            return TurnOutcome.FAILED
        if self.turn_s is None:
            return TurnOutcome.NOT_TAKEN
        return TurnOutcome.ANSWERED if self.turn_ok else TurnOutcome.FAILED


@dataclass(frozen=True)
class VitalsPair:
    """One instance before and after a change, or at the same two times where nothing was changed.

    Attributes:
        before: ``None`` without a sample.
    """

    before: Vitals | None
    after: Vitals | None


def figures_of(vital: Vital, pairs: Mapping[InstanceId, VitalsPair]) -> dict[InstanceId, tuple[float, float]]:
    """One figure of each instance, before and after; instances that lack either are left out."""
    figures = {}
    for instance_id, pair in pairs.items():
        before = pair.before.figures.get(vital) if pair.before else None
        after = pair.after.figures.get(vital) if pair.after else None
        if before is not None and after is not None:
            figures[instance_id] = (before, after)
    return figures


def lasting_of(vital: Vital, pairs: Mapping[InstanceId, VitalsPair]) -> dict[InstanceId, float]:
    """The figure of each instance after its change, without the sample in which it was worst."""
    lasting = {each: pair.after.lasting.get(vital) for each, pair in pairs.items() if pair.after}
    return {each: figure for each, figure in lasting.items() if figure is not None}


def vitals_of(instance_id: InstanceId, samples: Sequence[HealthSample]) -> Vitals:
    """The vitals of one instance on one release, from its samples, oldest first.

    Errors are a rate over the time that was counted, restarts one over the time between samples; memory and turns are
    medians, the queue's age is the worst. A single sample gives no rate of restarts unless there was none.

    Raises:
        ValueError: There is no sample.
    """
    if not samples:
        raise ValueError("no sample")
    first, last = samples[0], samples[-1]
    figures = {vital: figure(samples) for vital, figure in _FIGURES.items()}
    lasting = {vital: _lasting(vital, samples) for vital in Vital}
    outcomes = {each.outcome for each in samples}
    worst = next(o for o in (TurnOutcome.FAILED, TurnOutcome.ANSWERED, TurnOutcome.NOT_TAKEN) if o in outcomes)
    return Vitals(
        instance_id,
        since=first.since or first.at,
        until=last.at,
        source=Source.NODE,
        figures={vital: value for vital, (value, _) in figures.items() if value is not None},
        turn=worst,
        missing={vital: why for vital, (value, why) in figures.items() if value is None},
        lasting={vital: value for vital, value in lasting.items() if value is not None},
    )


def _lasting(vital: Vital, samples: Sequence[HealthSample]) -> float | None:
    """A figure without its worst sample: one slow turn or one burst of errors is nothing that lasts."""
    if vital is Vital.RESTARTS:  # each is an event, and no measurement
        return _restarts(samples)[0]
    worth = _WORTHS[vital]
    measured = sorted((sample for sample in samples if worth(sample) is not None), key=lambda each: worth(each) or 0.0)
    left = {id(sample) for sample in measured[:-1]}
    rest = [sample for sample in samples if id(sample) in left]
    return _FIGURES[vital](rest)[0] if rest else None


def _turn_s(sample: HealthSample) -> float | None:
    return sample.turn_s if sample.turn_ok else None


def _turns(samples: Sequence[HealthSample]) -> tuple[float | None, str]:
    return _median([_turn_s(sample) for sample in samples], "no turn was answered")


def _memory_bytes(sample: HealthSample) -> float | None:
    # A gateway that is starting, or was ended, holds a part of what it will.
    return sample.memory_bytes if sample.is_answering else None


def _errors(samples: Sequence[HealthSample]) -> tuple[float | None, str]:
    counted = [(each.errors, (each.at - each.since).total_seconds()) for each in samples if each.since is not None]
    if not counted:
        return None, "errors were not counted"
    if any(errors is None for errors, _ in counted):
        return None, "the log does not reach back so far"
    seconds = sum(seconds for _, seconds in counted)
    if seconds <= 0:
        return None, "no time was counted"
    return sum(errors or 0 for errors, _ in counted) * _HOUR_S / seconds, ""


def _restarts(samples: Sequence[HealthSample]) -> tuple[float | None, str]:
    first, last = samples[0], samples[-1]
    seconds = (last.at - first.at).total_seconds()
    if not any(each.restarts for each in samples):
        return 0.0, ""
    if seconds <= 0:
        return None, f"restarted {last.restarts} times, in a single sample"
    return restarts_during([each.restarts for each in samples]) * _HOUR_S / seconds, ""


def restarts_during(counts: Sequence[int]) -> int:
    """How often a gateway was restarted between the first and the last of systemd's counts, oldest first."""
    # systemd counts anew when somebody starts the unit by hand.
    return sum(now - before if now >= before else now for before, now in pairwise(counts))


def _memory(samples: Sequence[HealthSample]) -> tuple[float | None, str]:
    answers = any(sample.is_answering for sample in samples)
    missing = "the machine counts no memory" if answers else "the gateway does not answer"
    return _median([_memory_bytes(sample) for sample in samples], missing)


def _median(values: Sequence[float | None], missing: str) -> tuple[float | None, str]:
    present = [value for value in values if value is not None]
    return (float(statistics.median(present)), "") if present else (None, missing)


def _queue_age(samples: Sequence[HealthSample]) -> tuple[float | None, str]:
    present = [sample.queue_age_s for sample in samples if sample.queue_age_s is not None]
    return (max(present), "") if len(present) == len(samples) else (None, "the gateway did not report its jobs")


_FIGURES: Mapping[Vital, Callable[[Sequence[HealthSample]], tuple[float | None, str]]] = {
    Vital.GATEWAY_ERRORS: _errors,
    Vital.RESTARTS: _restarts,
    Vital.TURN_LATENCY: _turns,
    Vital.MEMORY: _memory,
    Vital.QUEUE_AGE: _queue_age,
}
"""Each vital of several samples, and the reason where there is none."""

_WORTHS: Mapping[Vital, Callable[[HealthSample], float | None]] = {
    Vital.GATEWAY_ERRORS: lambda sample: sample.errors if sample.since is not None else None,
    Vital.TURN_LATENCY: _turn_s,
    Vital.MEMORY: _memory_bytes,
    Vital.QUEUE_AGE: lambda sample: sample.queue_age_s,
}
"""The part of each sample in a vital; ``None`` where it has none."""


def _timestamp(seconds: float) -> datetime:
    return datetime.fromtimestamp(float(seconds), UTC)


@dataclass(frozen=True)
class Question:
    """A question to one node.

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
    """The question to a node: errors since its last sample, and a turn where it is time for one.

    Args:
        begin: Where "after" begins for it; ``None`` while all is "before".
    """
    counted_from = begin or now - _COUNTED
    same_side = [sample for sample in stored if sample.at > counted_from]
    turns = [sample for sample in same_side if sample.outcome is not TurnOutcome.NOT_TAKEN]
    since = same_side[-1].at if same_side else counted_from
    return Question(since, _TURN_S if _is_time_for_turn(turns, begin, now) else 0.0)


def _is_time_for_turn(turns: Sequence[HealthSample], begin: datetime | None, now: datetime) -> bool:
    """Whether a turn is due: at once after a failed one, and soon after the first, as one alone proves nothing."""
    if not turns or turns[-1].outcome is TurnOutcome.FAILED:
        return True
    last = turns[-1]
    if begin and len(turns) == 1:
        return now - last.at >= _TURN_SOON
    rest = min(max(last.at - begin, _TURN_SOON), _TURN_EVERY) if begin else _TURN_EVERY
    return now - last.at >= rest
