"""The power of the failure gate, computed and not simulated: how likely it halts, when, and after how many failures.

The gate reads only counts at the end of each batch. So the probability of every pair of counts follows exactly from
those of the batch before, which yields the error rates of test and rule together for given batches.
Pure.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, comb, log

from hermesops.agents.rollout.gates.failure import Bounds, Tally, halts, is_lost
from hermesops.model.rollout.spec import FailureGate

_NEGLIGIBLE = 1e-8
"""Probability below which a pair of counts is not followed any further; it counts as not halted."""

_OUT_OF_PLAY = -1
"""Instead of the failures of all: their test can halt nothing any more that the stage's own does not halt before."""

Ways = dict[tuple[int, int], float]
"""Failures of all targets and of the present stage, with the probability of reaching them without a halt."""


@dataclass(frozen=True)
class Odds:
    """Expectations for given batches if each target fails with one probability.

    Attributes:
        halted: Probability that the gate halts it at some point.
        by_stage: … by the end of each stage.
        touched: Mean number of targets touched.
        failed: Mean number of targets that failed.
    """

    halted: float
    by_stage: tuple[float, ...]
    touched: float
    failed: float


def odds(stages: Sequence[Sequence[int]], rate: float, gate: FailureGate) -> Odds:
    """Follow every pair of counts that the batches can lead to.

    Args:
        stages: Sizes of the batches of each stage.
        rate: Probability that a target fails, whichever it is.
    """
    bounds = Bounds.of(gate)
    ways: Ways = {(0, 0): 1.0}
    halted = mean = 0.0
    touched, by_stage = 0, []
    for batches in stages:
        ways = _at_stage(ways, touched, gate, bounds, is_last=batches is stages[-1])
        in_stage = 0
        for number, size in enumerate(batches, 1):
            touched, in_stage = touched + size, in_stage + size
            ways = _after(ways, size, rate)
            rules = _Rules(touched, in_stage, gate, bounds, is_over=number == len(batches))
            chance = sum(ways.pop(counts) for counts in list(ways) if rules.halt(*counts))
            halted += chance
            mean += chance * touched
        by_stage.append(halted)
    mean += (1 - halted) * touched
    return Odds(halted, tuple(by_stage), mean, rate * mean)  # Wald's equation: touched targets fail at that rate


def seen_with(rate: float, power: float) -> int:
    """How many machines show at least one failure with probability ``power`` if each fails with ``rate``."""
    return ceil(log(1 - power) / log(1 - rate)) if rate < 1 else 1


def worst_failed(stages: Sequence[Sequence[int]], gate: FailureGate) -> int:
    """How many targets fail under a release that breaks all: those touched until the gate halts."""
    bounds = Bounds.of(gate)
    for overall, stage, is_over in _prefixes(stages):
        if halts(Tally(overall, overall), Tally(stage, stage), gate, bounds, is_over=is_over):
            return overall
    return sum(map(sum, stages))


def _prefixes(stages: Sequence[Sequence[int]]) -> Iterator[tuple[int, int, bool]]:
    overall = 0
    for batches in stages:
        stage = 0
        for number, size in enumerate(batches, 1):
            overall, stage = overall + size, stage + size
            yield overall, stage, number == len(batches)


@dataclass(frozen=True)
class _Rules:
    """The gate at the end of one batch."""

    touched: int
    in_stage: int
    gate: FailureGate
    bounds: Bounds
    is_over: bool

    def halt(self, overall: int, stage: int) -> bool:
        """Whether the gate of failures halts the rollout at so many failed targets, overall and in the stage."""
        of_stage = Tally(self.in_stage, stage)
        if overall == _OUT_OF_PLAY:
            return self.bounds.ratio(of_stage) >= self.bounds.bad or (self.is_over and is_lost(of_stage))
        return halts(Tally(self.touched, overall), of_stage, self.gate, self.bounds, is_over=self.is_over)


def _at_stage(ways: Ways, touched: int, gate: FailureGate, bounds: Bounds, *, is_last: bool) -> Ways:
    """A new stage counts its failures from 0.

    By what the ratio of all is below 0 when the last stage begins, the stage's own is above that of all until its end.
    From ``-bad`` on the rule for the first few cannot halt either, where its rate makes the ratio of all positive. That
    is nearly always so where many were touched, and leaves one count to follow of two.
    """
    rule_is_weaker = bounds.ratio(Tally(1000, round(1000 * gate.early_rate))) > 0
    merged: Ways = {}
    for (failed, _), chance in ways.items():
        out = is_last and rule_is_weaker and bounds.ratio(Tally(touched, failed)) <= -bounds.bad
        key = (_OUT_OF_PLAY if out else failed), 0
        merged[key] = merged.get(key, 0.0) + chance
    return merged


def _after(ways: Ways, size: int, rate: float) -> Ways:
    """Each pair of counts after one batch more."""
    binomial = (comb(size, k) * rate**k * (1 - rate) ** (size - k) for k in range(size + 1))
    likely = [(k, chance) for k, chance in enumerate(binomial) if chance >= _NEGLIGIBLE]
    after: Ways = {}
    for (failed, in_stage), before in ways.items():
        for more, chance in likely:
            key = (failed if failed == _OUT_OF_PLAY else failed + more), in_stage + more
            after[key] = after.get(key, 0.0) + before * chance
    return {key: chance for key, chance in after.items() if chance >= _NEGLIGIBLE}
