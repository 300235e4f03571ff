"""Watches changed instances, and some untouched ones at the same time, each against itself before.

Nodes remember nothing, so their samples are stored: an instance that will be compared later is sampled while it is
untouched. Where there is a Prometheus its figures count, as they cover all of the time and not only samples.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from hermesops.agents.health.prometheus import Prometheus
from hermesops.agents.health.samples.kept import StoredHealthSamples
from hermesops.agents.health.samples.sample import (
    FRESH,
    FRESH_CONTROL,
    HealthSample,
    VitalsPair,
    question,
    stalest,
    vitals_of,
)
from hermesops.agents.health.samples.sampler import Sampler
from hermesops.model.fleet.vitals import ChangeSpan, Liveness, Source, TurnOutcome, Vitals
from hermesops.model.ids import InstanceId

CONTROLS = 64
"""How many untouched instances are sampled."""

CHANGED = 256
"""How many changed ones are sampled, first those whose last sample is oldest."""

_BEFORE = timedelta(hours=24)
"""How far back samples count as "before"."""

_ROUTER_IS_DOWN = 0.5
"""Share of untouched instances with a failing turn from which on a failing turn proves nothing about a release."""

_GRAIN_S = 30
"""Changes so close together are one question to Prometheus."""

_LEAST_BEFORE = timedelta(minutes=10)
"""How far back Prometheus is asked at least: a gateway that was started just before a change was not yet itself."""


@dataclass(frozen=True)
class CanaryObservation:
    """The observations of one round.

    Attributes:
        liveness_of: Of the changed instances that have answered.
    """

    liveness_of: Mapping[InstanceId, Liveness] = field(default_factory=dict)
    changed: Mapping[InstanceId, VitalsPair] = field(default_factory=dict)
    controls: Mapping[InstanceId, VitalsPair] = field(default_factory=dict)


@dataclass(frozen=True)
class CanaryWatch:
    """Watches the instances of a stage while they run a new release."""

    sampler: Sampler
    store: StoredHealthSamples
    now: Callable[[], datetime]
    prometheus: Prometheus | None = None

    async def watch(
        self, changed: Mapping[InstanceId, ChangeSpan], untouched: Sequence[InstanceId]
    ) -> CanaryObservation:
        """Observe all changed instances, and the first of the untouched ones.

        Args:
            untouched: Those next to be changed come first: their samples of now are their "before".

        Raises:
            UnavailableError: There is a Prometheus, and it does not answer.
        """
        now = self.now()
        controls = [each for each in untouched if each not in changed][:CONTROLS]
        # Controls are compared at the same times as the instance that was changed first.
        first = min(changed.values(), key=lambda span: span.ended, default=ChangeSpan(now, now))
        at = {**dict.fromkeys(controls, first), **changed}
        oldest = min([now, *(span.began for span in at.values())]) - _BEFORE
        stored = {each: list(some) for each, some in (await self.store.since(list(at), oldest)).items()}
        begins = {each: span.ended for each, span in at.items()} if changed else {}
        due = [
            *stalest(list(changed), stored, begins, now - FRESH)[:CHANGED],
            *stalest(controls, stored, begins, now - FRESH_CONTROL),
        ]
        questions = {
            each: question(stored.get(each, []), begins.get(each), now)
            for each in due
            if not self.sampler.is_asking(each)
        }
        answers = await self.sampler.sample(questions)
        await self.store.add({each: sample for each, sample in answers.items() if sample is not None})
        samples = {each: [*stored.get(each, []), *([new] if (new := answers.get(each)) else [])] for each in at}
        # A stored sample says nothing of an instance that has not answered since.
        latest = {
            each: answers[each] if each in answers else samples[each][-1]
            for each in at
            if each in answers or (samples[each] and not self.sampler.is_asking(each))
        }
        pairs = {each: _pair(each, samples[each], at[each], answered=bool(latest.get(each))) for each in at}
        if self.prometheus:
            pairs = await _enriched(self.prometheus, pairs, at, now)
        has_router = _has_router([samples[each] for each in controls])
        return CanaryObservation(
            liveness_of={
                each: _liveness(samples[each], changed[each].ended, latest[each], has_router=has_router)
                for each in changed
                if each in latest
            },
            changed={each: pairs[each] for each in changed},
            controls={each: pairs[each] for each in controls} if changed else {},
        )


async def _enriched(
    prometheus: Prometheus, pairs: Mapping[InstanceId, VitalsPair], at: Mapping[InstanceId, ChangeSpan], now: datetime
) -> dict[InstanceId, VitalsPair]:
    """The pairs with the figures that Prometheus has in place of those of nodes."""
    groups: defaultdict[ChangeSpan, list[InstanceId]] = defaultdict(list)
    for each, span in at.items():
        groups[_in_grains(span)].append(each)
    merged = dict(pairs)
    for span, some in groups.items():
        stretch = max(now - span.ended, timedelta(seconds=_GRAIN_S))
        before = await prometheus.vitals(some, since=span.began - max(stretch, _LEAST_BEFORE), until=span.began)
        after = await prometheus.vitals(some, since=span.ended, until=span.ended + stretch)
        for each in some:
            merged[each] = VitalsPair(
                _merged(pairs[each].before, before[each]), _merged(pairs[each].after, after[each])
            )
    return merged


def _in_grains(span: ChangeSpan) -> ChangeSpan:
    """The span, made longer so that both ends are whole grains: no moment of the change counts."""
    began, ended = int(span.began.timestamp()), math.ceil(span.ended.timestamp())
    return ChangeSpan(
        datetime.fromtimestamp(began - began % _GRAIN_S, UTC), datetime.fromtimestamp(ended + -ended % _GRAIN_S, UTC)
    )


def _pair(instance_id: InstanceId, samples: Sequence[HealthSample], span: ChangeSpan, *, answered: bool) -> VitalsPair:
    before = [sample for sample in samples if sample.at <= span.began]
    after = [sample for sample in samples if sample.at > span.ended] if answered else []
    return VitalsPair(
        vitals_of(instance_id, before) if before else None, vitals_of(instance_id, after) if after else None
    )


def _liveness(
    samples: Sequence[HealthSample], changed_at: datetime, latest: HealthSample | None, *, has_router: bool
) -> Liveness:
    turns = [each.outcome for each in samples if each.at > changed_at and each.outcome is not TurnOutcome.NOT_TAKEN]
    # Of an agent with its user's own provider nobody takes a turn: that its gateway answers is all that can be seen.
    is_spared = any(each.at > changed_at and each.is_answering and not each.takes_turns for each in samples)
    exercised = TurnOutcome.ANSWERED in turns or (has_router and bool(turns)) or is_spared
    # One turn may fail by itself; two in a row do not while others' turns are answered.
    failed = "the agent takes no turn" if has_router and turns[-2:] == [TurnOutcome.FAILED] * 2 else ""
    return Liveness(latest.is_answering if latest else None, exercised, failed)


def _has_router(controls: Sequence[Sequence[HealthSample]]) -> bool:
    """Whether turns can be taken at all, as far as untouched instances show; even one of them, in a small fleet."""
    last = [[each.outcome for each in samples if each.outcome is not TurnOutcome.NOT_TAKEN] for samples in controls]
    taken = [outcomes[-1] for outcomes in last if outcomes]
    failed = taken.count(TurnOutcome.FAILED)
    return not taken or failed < _ROUTER_IS_DOWN * len(taken)


def _merged(node: Vitals | None, prometheus: Vitals) -> Vitals | None:
    if not prometheus.figures:
        return node
    if node is None:
        return prometheus
    figures = {**node.figures, **prometheus.figures}
    missing = {vital: why for vital, why in node.missing.items() if vital not in figures}
    return replace(node, source=Source.PROMETHEUS, figures=figures, missing=missing)
