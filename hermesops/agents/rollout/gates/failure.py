"""The failure gate: do failures among touched targets indicate a good release or a bad one? Pure.

Wald's sequential probability ratio test (A. Wald, Sequential Analysis, 1947): after every batch the logarithm of how
much likelier the outcome is under the bad rate than under the base rate; above one bound the release counts as bad,
below the other as good. Its error rates hold however often it is evaluated. Beside it two rules for the first few
targets, where the test cannot know much yet: some failed, and that is a large share of those touched; or a stage is
over and all that were tried in it failed, even if that is one alone.
"""

from dataclasses import dataclass
from math import log

from hermesops.model.rollout import GateResult
from hermesops.model.rollout_spec import FailureGate


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
    """What the logarithm of the ratio is compared with, and what each target adds to it.

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
    """What the failure gate says, with the state of its test.

    Attributes:
        stage: Those of the present stage.
        ratio: Of all; ``stage_ratio`` of the stage.
    """

    result: GateResult
    why: str
    all: Tally
    stage: Tally
    ratio: float
    stage_ratio: float
    bounds: Bounds


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
    return FailureGateAnswer(result, why, overall, stage, ratio, stage_ratio, bounds)


def _verdict(overall: Tally, stage: Tally, gate: FailureGate, bounds: Bounds) -> tuple[GateResult, str]:
    seen = f"{overall.failed} of {overall.touched} failed"
    ratio = bounds.ratio(overall)
    if not overall.touched:
        return GateResult.NOT_EXERCISED, "none was touched yet"
    if ratio >= bounds.bad:
        return GateResult.FAIL, f"{seen}: log ratio {ratio:+.2f} is above {bounds.bad:.2f}"
    if bounds.ratio(stage) >= bounds.bad:
        words = f"{stage.failed} of {stage.touched} failed in this stage"
        return GateResult.FAIL, f"{words}: log ratio {bounds.ratio(stage):+.2f} is above {bounds.bad:.2f}"
    if is_early_harm(overall, gate):
        return (
            GateResult.FAIL,
            f"{seen}: {overall.rate:.1%} > {gate.early_rate:.0%} after {gate.early_failures} or more",
        )
    if ratio <= bounds.good:
        return GateResult.PASS, f"{seen}: log ratio {ratio:+.2f} is below {bounds.good:.2f}"
    return (
        GateResult.INCONCLUSIVE,
        f"{seen}: log ratio {ratio:+.2f} lies between {bounds.good:.2f} and {bounds.bad:.2f}",
    )


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
