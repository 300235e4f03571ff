"""The next step for one target. It follows from its row and its machine's report, so any runner can continue. Pure.

Clocks of machines are not compared with ours. Whether a failure that a machine reports is of this attempt is known from
what it reported before it was touched.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto

from hermesops.model.rollout.records import ReleaseStatus, RolloutTarget, TargetState
from hermesops.model.rollout.release import ReleaseId
from hermesops.model.rollout.spec import Spec

LEFT_UNCHANGED = "left unchanged: "
"""Beginning of each reason that leaves a target as it was."""

BUSY_AGAIN_S = 300.0
"""Seconds after which a deferred busy target is asked again."""

PATIENCE_S = 60.0
"""Seconds for which a target is observed before it is deferred as busy. A turn by which health was probed takes up to
half of that: the rollout's own question must not defer its target."""


class TargetStep(Enum):
    """Steps of the deployment to one target."""

    FETCH = auto()
    """Copy the release to the machine."""
    OBSERVE_AGENT = auto()
    """See whether its agent answers before anything is changed."""
    ACTIVATE = auto()
    """Have the machine change to the release."""
    CONFIRM = auto()
    """See that the gateway answers, and have the machine keep the release."""
    ROLL_BACK = auto()
    """Have the machine go back: the rollout was aborted."""
    AWAIT = auto()
    """Observe it again in a moment."""
    RETRY = auto()
    """Try it once more: the machine rolled back because no runner confirmed it in time."""


@dataclass(frozen=True)
class Settle:
    """The target has an outcome.

    Attributes:
        on_release: Whether it runs the new release for good, or is on its way to it and does not go back by itself.
    """

    state: TargetState
    detail: str = ""
    on_release: bool = False


TargetDecision = TargetStep | Settle


@dataclass(frozen=True)
class TargetObservation:
    """One target at one moment.

    Attributes:
        status: What its machine says; ``None`` when it does not answer.
        silent_s: Seconds since it last answered.
        tried_s: Seconds since this or an earlier runner began with it.
        unwell: What is wrong with its untouched agent; empty for nothing, ``None`` before it was observed.
        unwell_s: Seconds since something was first wrong with it; one slow answer says nothing.
        confirm_error: Why this runner could not confirm it, though it tried; empty when it did not.
        ending: Whether no new target is to be touched, and an unconfirmed one is to go back.
    """

    target: RolloutTarget
    status: ReleaseStatus | None
    silent_s: float
    tried_s: float
    unwell: str | None
    fetched: bool
    confirm_error: str
    ending: bool
    now: datetime
    unwell_s: float = 0.0


def decide_target(observation: TargetObservation, release: ReleaseId, spec: Spec) -> TargetDecision:
    """The next step for a target that shall run a release."""
    if observation.status is None:
        return _in_silence(observation, spec)
    if observation.target.touched_at is None:
        return _untouched(observation, observation.status, release, spec)
    return _touched(observation, observation.status, release, spec)


def _in_silence(observation: TargetObservation, spec: Spec) -> TargetDecision:
    if observation.silent_s < spec.unreachable_after_s and observation.tried_s < spec.attempt_s:
        return TargetStep.AWAIT
    words = f"no answer for {observation.silent_s:.0f} s"
    if observation.target.touched_at is not None:
        return Settle(TargetState.SILENT, f"{words} since its change began")
    if observation.silent_s < spec.unreachable_after_s:  # another operation works on it for too long
        words = f"its change did not begin within {observation.tried_s:.0f} s"
    return _unreachable(words)


def _unreachable(why: str) -> Settle:
    return Settle(TargetState.UNREACHABLE, f"{LEFT_UNCHANGED}{why}")


def _untouched(observation: TargetObservation, status: ReleaseStatus, release: ReleaseId, spec: Spec) -> TargetDecision:
    if observation.ending:
        return Settle(TargetState.WAITING)
    if status.absent:
        return Settle(TargetState.OUTDATED, status.absent)
    if status.current == release and not status.activation:
        return Settle(TargetState.HEALTHY, "already on this release")
    if observation.tried_s >= spec.attempt_s:
        return _unreachable(f"its change did not begin within {observation.tried_s:.0f} s")
    if status.activation:
        return TargetStep.AWAIT
    if status.busy and not spec.emergency and not is_overdue(observation.target, observation.now, spec):
        if observation.tried_s < min(PATIENCE_S, spec.defer_s, spec.attempt_s / 2):
            return TargetStep.AWAIT
        return Settle(TargetState.DEFERRED, f"busy: {status.busy}")
    # An agent that does not answer now would not answer after the change: that would say nothing of the release.
    if observation.unwell != "" and not spec.emergency:
        if observation.unwell is None or observation.unwell_s < spec.unreachable_after_s:
            return TargetStep.OBSERVE_AGENT
        return _unreachable(observation.unwell)
    return TargetStep.ACTIVATE if observation.fetched else TargetStep.FETCH


def _touched(observation: TargetObservation, status: ReleaseStatus, release: ReleaseId, spec: Spec) -> TargetDecision:
    is_ready = status.activation == release and status.phase == "unconfirmed"
    if not status.activation and status.current == release:
        return Settle(TargetState.SOAKING, on_release=True)
    is_new = status.last != observation.target.progress.last_before
    if status.activation != release and is_new and status.last_to == release and status.last_failed:
        return _rolled_back(observation, status)
    if not status.activation and observation.ending:
        return Settle(TargetState.WAITING)
    if observation.tried_s >= spec.attempt_s:
        return _timed_out(observation, status, is_ready=is_ready)
    if is_ready:
        return TargetStep.ROLL_BACK if observation.ending else TargetStep.CONFIRM
    return TargetStep.AWAIT if status.activation else TargetStep.ACTIVATE


def _timed_out(observation: TargetObservation, status: ReleaseStatus, *, is_ready: bool) -> Settle:
    """The change takes too long. Where its machine does not go back by itself, the rollout has to bring it back."""
    words = f"not done after {observation.tried_s:.0f} s" + (f": {status.step}" if status.step else "")
    if not status.activation:
        return Settle(TargetState.TIMED_OUT, words)
    if not status.reverts:
        return Settle(TargetState.TIMED_OUT, words, on_release=True)
    phase = "" if is_ready else f" in {status.phase or 'a change'}"
    return Settle(TargetState.TIMED_OUT, f"{words}{phase}; it rolls back by itself")


def _rolled_back(observation: TargetObservation, status: ReleaseStatus) -> TargetDecision:
    """The machine is on its old release again. Where no runner confirmed it in time, the release is not to blame."""
    if observation.ending:
        return Settle(TargetState.ROLLED_BACK, status.why)
    if not status.confirm_timed_out:
        return Settle(TargetState.FAILED, status.why or "its machine rolled back without a reason")
    if observation.confirm_error:
        return Settle(TargetState.FAILED, observation.confirm_error)
    if observation.target.progress.confirm_timeouts:
        return Settle(TargetState.TIMED_OUT, "rolled back twice because no process confirmed it in time")
    return TargetStep.RETRY


def deferral(target: RolloutTarget, now: datetime, spec: Spec) -> datetime:
    """Until when a target may be deferred; the first deferral counts."""
    return target.progress.deferred_until or now + timedelta(seconds=spec.defer_s)


def is_overdue(target: RolloutTarget, now: datetime, spec: Spec) -> bool:
    """Whether a target has been deferred for as long as it may be."""
    return deferral(target, now, spec) <= now
