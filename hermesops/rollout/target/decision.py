"""What is next for one target: follows from its row and from what its machine says, so it may be left anywhere. Pure.

Clocks of machines are not compared with ours. Whether a failure that a machine tells of is of this attempt is known
from what it told before it was touched.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from hermesops.model.release import ReleaseId
from hermesops.model.rollout import ReleaseStatus, RolloutTarget, TargetState
from hermesops.model.rollout_spec import Spec

BUSY_AGAIN_S = 300.0
"""Seconds after which somebody busy is asked again."""


@dataclass(frozen=True)
class Fetch:
    """Bring the release to the machine."""


@dataclass(frozen=True)
class ObserveAgent:
    """See whether its agent answers before anything is changed."""


@dataclass(frozen=True)
class Activate:
    """Have the machine change."""


@dataclass(frozen=True)
class Confirm:
    """See that it answers, and tell the machine to stay."""


@dataclass(frozen=True)
class RollBack:
    """Tell the machine to go back: nobody wants the change any more."""


@dataclass(frozen=True)
class Await:
    """Look again in a moment."""


@dataclass(frozen=True)
class Retry:
    """Its machine went back because nobody was there to confirm; its turn comes again, once."""


@dataclass(frozen=True)
class Settle:
    """It has come to an end.

    Attributes:
        on_release: Whether it runs the new release for good.
    """

    state: TargetState
    detail: str = ""
    on_release: bool = False


TargetDecision = Fetch | ObserveAgent | Activate | Confirm | RollBack | Await | Retry | Settle


@dataclass(frozen=True)
class TargetObservation:
    """One target at one moment.

    Attributes:
        status: What its machine says; ``None`` when it says nothing.
        silent_s: For how many seconds it has said nothing.
        tried_s: For how many seconds it has been under way.
        unwell: What is wrong with its agent though nobody has touched it; empty when nothing, ``None`` before anybody
            looked.
        fetched: Whether this runner has brought the release to the machine.
        confirm_error: Why this runner could not confirm it, though it tried; empty when it did not.
        ending: Whether nobody new is to be touched, and who is not confirmed shall go back.
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


def decide_target(observation: TargetObservation, release: ReleaseId, spec: Spec) -> TargetDecision:
    """The next thing to do for a target.

    Args:
        observation: The target and its machine.
        release: What it shall run.
        spec: How patient one is.
    """
    if observation.status is None:
        return _in_silence(observation, spec)
    if observation.target.touched_at is None:
        return _untouched(observation, observation.status, release, spec)
    return _touched(observation, observation.status, release, spec)


def _in_silence(observation: TargetObservation, spec: Spec) -> TargetDecision:
    if observation.silent_s < spec.patience_s and observation.tried_s < spec.attempt_s:
        return Await()
    words = f"no answer for {observation.silent_s:.0f} s"
    if observation.target.touched_at is None:
        if observation.silent_s < spec.patience_s:  # whoever else works on it takes too long
            words = f"not begun after {observation.tried_s:.0f} s"
        return Settle(TargetState.UNREACHABLE, words)
    return Settle(TargetState.SILENT, f"{words} since it was told to change")


def _untouched(observation: TargetObservation, status: ReleaseStatus, release: ReleaseId, spec: Spec) -> TargetDecision:
    if observation.ending:
        return Settle(TargetState.WAITING)
    if status.absent:
        return Settle(TargetState.OUTDATED, status.absent)
    if status.current == release and not status.activation:
        return Settle(TargetState.HEALTHY, "ran it already")
    if observation.tried_s >= spec.attempt_s:
        return Settle(TargetState.UNREACHABLE, f"not begun after {observation.tried_s:.0f} s")
    if status.activation:
        return Await()
    if status.busy and not spec.emergency and not is_overdue(observation.target, observation.now, spec):
        return Settle(TargetState.DEFERRED, f"busy: {status.busy}")
    return _unless_unwell(observation, Activate() if observation.fetched else Fetch(), spec)


def _unless_unwell(observation: TargetObservation, act: TargetDecision, spec: Spec) -> TargetDecision:
    """An agent that does not answer now would not after the change: that would be no word about the release."""
    if spec.emergency:
        return act
    if observation.unwell is None:
        return ObserveAgent()
    return (
        Settle(TargetState.UNREACHABLE, f"before anything was changed, {observation.unwell}")
        if observation.unwell
        else act
    )


def _touched(observation: TargetObservation, status: ReleaseStatus, release: ReleaseId, spec: Spec) -> TargetDecision:
    if status.activation == release:
        if status.phase != "unconfirmed":
            return _patiently(observation, status, spec)
        return _unless_late(observation, RollBack() if observation.ending else Confirm(), spec)
    if status.current == release and not status.activation:
        return Settle(TargetState.SOAKING, on_release=True)
    told = status.last != observation.target.progress.said_before
    if told and status.last_to == release and status.last_failed:
        return _went_back(observation, status)
    if status.activation:
        return _patiently(observation, status, spec)
    return Settle(TargetState.WAITING) if observation.ending else _unless_late(observation, Activate(), spec)


def _went_back(observation: TargetObservation, status: ReleaseStatus) -> TargetDecision:
    """Its machine is on the old release again. Where nobody was there to confirm, that is not the release's fault."""
    if observation.ending:
        return Settle(TargetState.ROLLED_BACK, status.why)
    if not status.confirm_timed_out:
        return Settle(TargetState.FAILED, status.why or "its machine went back and did not say why")
    if observation.confirm_error:
        return Settle(TargetState.FAILED, observation.confirm_error)
    if observation.target.progress.lapses:
        return Settle(TargetState.TIMED_OUT, "it went back twice before anybody confirmed it")
    return Retry()


def _patiently(observation: TargetObservation, status: ReleaseStatus, spec: Spec) -> TargetDecision:
    return _unless_late(observation, Await(), spec, f" in {status.phase or 'a change'}")


def _unless_late(observation: TargetObservation, act: TargetDecision, spec: Spec, where: str = "") -> TargetDecision:
    if observation.tried_s < spec.attempt_s:
        return act
    return Settle(TargetState.TIMED_OUT, f"not done after {observation.tried_s:.0f} s{where}; it goes back by itself")


def deferral(target: RolloutTarget, now: datetime, spec: Spec) -> datetime:
    """Until when a target may be deferred; the first deferral counts."""
    return target.progress.deferred_until or now + timedelta(seconds=spec.defer_s)


def is_overdue(target: RolloutTarget, now: datetime, spec: Spec) -> bool:
    """Whether it is a target's turn whatever it or its user does."""
    return deferral(target, now, spec) <= now
