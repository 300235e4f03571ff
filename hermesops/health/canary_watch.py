"""Watches instances that were changed, and at the same time some that were not, each against itself before.

Nodes remember nothing, so what they said is kept: whoever shall be compared later is looked at while it is untouched.
Where there is a Prometheus its figures count, as it saw all of the time and not only its ends.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Protocol

from hermesops.health.comparison import VitalsPair
from hermesops.health.sampler import Question
from hermesops.health.samples import HealthSample, vitals_of
from hermesops.health.schedule import FRESH, FRESH_CONTROL, question, stalest
from hermesops.model.ids import InstanceId
from hermesops.model.vitals import Liveness, Source, TurnOutcome, Vitals

CONTROLS = 64
"""How many untouched instances are looked at."""

CHANGED = 256
"""How many changed ones are looked at, those first that nobody looked at for longest."""

_BEFORE = timedelta(hours=24)
"""How far back readings count as "before"."""

_ROUTER_IS_DOWN = 0.5
"""Share of untouched instances whose turn fails, from which on a failing turn proves nothing about a release."""

_CONTROLS_NEEDED = 2
_GRAIN_S = 30
"""Changes so close together are one question to Prometheus."""


class Observes(Protocol):
    """The nodes."""

    def is_asking(self, instance_id: InstanceId, /) -> bool:
        """Whether one was asked and has not answered yet."""

    async def observe(self, asked: Mapping[InstanceId, Question]) -> Mapping[InstanceId, HealthSample | None]:
        """Ask them, and tell of those that answered by now; ``None`` for each that gave no reading."""


class StoresSamples(Protocol):
    """What was read."""

    async def add(self, read: Mapping[InstanceId, HealthSample]) -> None:
        """Remember one reading of each."""

    async def since(
        self, instances: Collection[InstanceId], moment: datetime
    ) -> Mapping[InstanceId, Sequence[HealthSample]]:
        """What is remembered of each since then, oldest first."""


class TakesFigures(Protocol):
    """Prometheus."""

    async def vitals(
        self, instances: Sequence[InstanceId], *, since: datetime, until: datetime
    ) -> Mapping[InstanceId, Vitals]:
        """The figures of these instances over a stretch of time."""


@dataclass(frozen=True)
class Watch:
    """What was seen.

    Attributes:
        liveness_of: Of those changed that somebody looked at.
    """

    liveness_of: Mapping[InstanceId, Liveness] = field(default_factory=dict)
    changed: Mapping[InstanceId, VitalsPair] = field(default_factory=dict)
    controls: Mapping[InstanceId, VitalsPair] = field(default_factory=dict)


class Watcher:
    """Watches.

    Args:
        nodes: Are asked.
        kept: What they said before.
        now: The present moment, with a time zone.
        prometheus: Where there is one.
    """

    def __init__(
        self,
        nodes: Observes,
        kept: StoresSamples,
        now: Callable[[], datetime],
        prometheus: TakesFigures | None = None,
    ) -> None:
        self._nodes = nodes
        self._kept = kept
        self._now = now
        self._prometheus = prometheus

    async def watch(self, changed: Mapping[InstanceId, datetime], untouched: Sequence[InstanceId]) -> Watch:
        """Look at all that were changed, and at the first of those that were not.

        Args:
            changed: When each was changed.
            untouched: Those next to be changed come first: what is seen of them now is their "before".

        Raises:
            UnavailableError: There is a Prometheus, and it does not answer.
        """
        now = self._now()
        controls = [each for each in untouched if each not in changed][:CONTROLS]
        # Controls are compared at the same two times as whoever was changed first.
        split = min(changed.values(), default=now)
        at = {**dict.fromkeys(controls, split), **changed}
        oldest = min([now, *at.values()]) - _BEFORE
        held = {whose: list(them) for whose, them in (await self._kept.since(list(at), oldest)).items()}
        begins: Mapping[InstanceId, datetime] = at if changed else {}
        due = [
            *stalest(list(changed), held, begins, now - FRESH)[:CHANGED],
            *stalest(controls, held, begins, now - FRESH_CONTROL),
        ]
        asked = {
            whose: question(held.get(whose, []), begins.get(whose), now)
            for whose in due
            if not self._nodes.is_asking(whose)
        }
        told = await self._nodes.observe(asked)
        await self._kept.add({whose: reading for whose, reading in told.items() if reading is not None})
        samples = {whose: [*held.get(whose, []), *([one] if (one := told.get(whose)) else [])] for whose in at}
        # What was read before says nothing of one that has not answered since.
        latest = {
            whose: told[whose] if whose in told else samples[whose][-1]
            for whose in at
            if whose in told or (samples[whose] and not self._nodes.is_asking(whose))
        }
        seen = {whose: _seen(whose, samples[whose], at[whose], answered=bool(latest.get(whose))) for whose in at}
        if self._prometheus:
            seen = await self._enriched(self._prometheus, seen, at, now)
        has_router = _has_router([samples[each] for each in controls])
        return Watch(
            liveness_of={
                each: _liveness(samples[each], changed[each], latest[each], has_router=has_router)
                for each in changed
                if each in latest
            },
            changed={each: seen[each] for each in changed},
            controls={each: seen[each] for each in controls} if changed else {},
        )

    async def _enriched(
        self,
        prometheus: TakesFigures,
        seen: Mapping[InstanceId, VitalsPair],
        at: Mapping[InstanceId, datetime],
        now: datetime,
    ) -> dict[InstanceId, VitalsPair]:
        groups: defaultdict[datetime, list[InstanceId]] = defaultdict(list)
        for whose, moment in at.items():
            groups[_rounded(moment)].append(whose)
        merged = dict(seen)
        for moment, some in groups.items():
            stretch = max(now - moment, timedelta(seconds=_GRAIN_S))
            before = await prometheus.vitals(some, since=moment - stretch, until=moment)
            after = await prometheus.vitals(some, since=moment, until=moment + stretch)
            for each in some:
                merged[each] = VitalsPair(
                    _merged(seen[each].before, before[each]), _merged(seen[each].after, after[each])
                )
        return merged


def _seen(whose: InstanceId, samples: Sequence[HealthSample], at: datetime, *, answered: bool) -> VitalsPair:
    before = [reading for reading in samples if reading.at <= at]
    after = [reading for reading in samples if reading.at > at] if answered else []
    return VitalsPair(vitals_of(whose, before) if before else None, vitals_of(whose, after) if after else None)


def _liveness(
    samples: Sequence[HealthSample], changed_at: datetime, latest: HealthSample | None, *, has_router: bool
) -> Liveness:
    turns = [each.outcome for each in samples if each.at > changed_at and each.outcome is not TurnOutcome.NOT_TAKEN]
    exercised = TurnOutcome.ANSWERED in turns or (has_router and bool(turns))
    # One turn may come to nothing by itself: two in a row do not, while others' turns are answered.
    failed = "the agent takes no turn" if has_router and turns[-2:] == [TurnOutcome.FAILED] * 2 else ""
    if latest is None:
        return Liveness(None, exercised, failed)
    return Liveness(latest.is_answering, exercised, failed)


def _has_router(controls: Sequence[Sequence[HealthSample]]) -> bool:
    """Whether turns can be taken at all, as far as untouched instances show."""
    last = [[each.outcome for each in samples if each.outcome is not TurnOutcome.NOT_TAKEN] for samples in controls]
    taken = [outcomes[-1] for outcomes in last if outcomes]
    failed = taken.count(TurnOutcome.FAILED)
    return len(taken) < _CONTROLS_NEEDED or failed < _ROUTER_IS_DOWN * len(taken)


def _merged(node: Vitals | None, prometheus: Vitals) -> Vitals | None:
    if not prometheus.figures:
        return node
    if node is None:
        return prometheus
    figures = {**node.figures, **prometheus.figures}
    missing = {vital: why for vital, why in node.missing.items() if vital not in figures}
    return replace(node, source=Source.PROMETHEUS, figures=figures, missing=missing)


def _rounded(moment: datetime) -> datetime:
    seconds = int(moment.timestamp())
    return datetime.fromtimestamp(seconds - seconds % _GRAIN_S, UTC)
