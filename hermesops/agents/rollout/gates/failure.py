"""The failure gate: do failures among touched targets indicate a good release or a bad one? Pure.

Wald's sequential probability ratio test (A. Wald, Sequential Analysis, 1947): after every batch the logarithm of how
much likelier the outcome is under the bad rate than under the base rate; above one bound the release counts as bad,
below the other as good. Its error rates hold however often it is evaluated. Beside it two rules for the first few
targets, where the test cannot know much yet: some failed, and that is a large share of those touched; or a stage is
over and all that were tried in it failed, even if that is one alone.
"""

from dataclasses import dataclass
from math import ceil, log

from hermesops.base.narration import counted
from hermesops.model.rollout.records import GateResult
from hermesops.model.rollout.spec import FailureGate


@dataclass(frozen=True)
class Tally:
    """How many were touched, and how many of them failed."""

    touched: int = 0
    failed: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.touched + other.touched, self.failed + other.failed)

    @property
    def rate(self) -> float:
        """Share that failed; 0 while none was touched."""
        return self.failed / self.touched if self.touched else 0.0


@dataclass(frozen=True)
class Bounds:
    """Bounds of the logarithm of the ratio, and the share of each target in it.

    Attributes:
        bad: From here on the release counts as bad.
        good: Down to here and below it counts as good.
        failure: Added by a target that failed.
        success: Added by one that did not; negative.
    """

    bad: float
    good: float
    failure: float
    success: float

    @classmethod
    def of(cls, gate: FailureGate) -> "Bounds":
        """Wald's bounds for the error rates that a gate states."""
        return cls(
            bad=log((1 - gate.beta) / gate.alpha),
            good=log(gate.beta / (1 - gate.alpha)),
            failure=log(gate.bad_rate / gate.base_rate),
            success=log((1 - gate.bad_rate) / (1 - gate.base_rate)),
        )

    def ratio(self, tally: Tally) -> float:
        """The logarithm of the likelihood ratio."""
        return tally.failed * self.failure + (tally.touched - tally.failed) * self.success


@dataclass(frozen=True)
class FailureGateAnswer:
    """The verdict of the failure gate, with the state of its test.

    Attributes:
        why: For people: counts only. The ratios are for ``rollout explain``.
        stage: Those of the present stage.
        ratio: Of all; ``stage_ratio`` of the stage.
        stops_at: Number of failures at which the gate fails, for the targets touched so far.
    """

    result: GateResult
    why: str
    all: Tally
    stage: Tally
    ratio: float
    stage_ratio: float
    bounds: Bounds
    stops_at: int


def weigh(overall: Tally, stage: Tally, gate: FailureGate, *, is_over: bool = False) -> FailureGateAnswer:
    """Judge the failures so far.

    Only the test over all targets can pass; a stage's own can fail too, as the successes of the first stages must not
    make up for what breaks only in a later one.

    Args:
        overall: All targets that were touched and have an outcome.
        stage: Those of the present stage among them.
        is_over: Whether no target of the present stage is left to be tried.
    """
    bounds = Bounds.of(gate)
    ratio, stage_ratio = bounds.ratio(overall), bounds.ratio(stage)
    result, why = _verdict(overall, stage, gate, bounds)
    if is_over and result is not GateResult.FAIL and is_lost(stage):
        result, why = GateResult.FAIL, f"every agent of this stage failed ({stage.failed} of {stage.touched})"
    stop = stops_at(overall.touched, gate, bounds)
    return FailureGateAnswer(result, why, overall, stage, ratio, stage_ratio, bounds, stop)


def _verdict(overall: Tally, stage: Tally, gate: FailureGate, bounds: Bounds) -> tuple[GateResult, str]:
    failures = f"{overall.failed} of {overall.touched} failed"
    if not overall.touched:
        return GateResult.NOT_EXERCISED, "no agent was changed yet"
    if bounds.ratio(overall) >= bounds.bad or is_early_harm(overall, gate):
        limit = stops_at(overall.touched, gate, bounds)
        return GateResult.FAIL, f"{failures}; a release this bad is stopped after {limit}"
    if bounds.ratio(stage) >= bounds.bad:
        limit = stops_at(stage.touched, None, bounds)
        words = f"{stage.failed} of {stage.touched} failed in this stage"
        return GateResult.FAIL, f"{words}; a release this bad is stopped after {limit}"
    if bounds.ratio(overall) <= bounds.good:
        return GateResult.PASS, f"{failures}; the release counts as good"
    more = ceil((bounds.good - bounds.ratio(overall)) / bounds.success)
    return GateResult.INCONCLUSIVE, f"no verdict yet: {failures}, needs about {counted(more, 'more agent')}"


def stops_at(touched: int, gate: FailureGate | None, bounds: Bounds) -> int:
    """The least number of failures at which the gate fails once so many targets were touched.

    Where all of them failing would not be enough, it is the number of targets that fail before it is.

    Args:
        gate: With the rule for the first few targets; ``None`` for the test alone.
    """
    failed = 1
    while not _is_stopped(Tally(max(touched, failed), failed), gate, bounds):
        failed += 1
    return failed


def _is_stopped(tally: Tally, gate: FailureGate | None, bounds: Bounds) -> bool:
    return bounds.ratio(tally) >= bounds.bad or (gate is not None and is_early_harm(tally, gate))


def is_early_harm(tally: Tally, gate: FailureGate) -> bool:
    """Whether the rule for the first few targets halts."""
    return tally.failed >= gate.early_failures and tally.rate > gate.early_rate


def is_lost(stage: Tally) -> bool:
    """Whether no target of a stage that is over runs the release."""
    return 0 < stage.touched == stage.failed


def halts(overall: Tally, stage: Tally, gate: FailureGate, bounds: Bounds, *, is_over: bool = False) -> bool:
    """Whether the gate fails, without a message: ``power`` calls it a million times."""
    return (
        is_early_harm(overall, gate)
        or bounds.ratio(overall) >= bounds.bad
        or bounds.ratio(stage) >= bounds.bad
        or (is_over and is_lost(stage))
    )
