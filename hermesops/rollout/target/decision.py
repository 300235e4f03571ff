"""What is next for one target: follows from its row and from what its machine says, so it may be left anywhere. Pure.

Clocks of machines are not compared with ours. Whether a failure that a machine tells of is of this attempt is known
from what it told before it was touched.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from hermesops.model.release import ReleaseId
from hermesops.model.rollout import RolloutTarget, Standing, TargetState
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
class GoBack:
    """Tell the machine to go back: nobody wants the change any more."""


@dataclass(frozen=True)
class Await:
    """Look again in a moment."""


@dataclass(frozen=True)
class BeginAnew:
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


Act = Fetch | ObserveAgent | Activate | Confirm | GoBack | Await | BeginAnew | Settle


@dataclass(frozen=True)
class Scene:
    """One target at one moment.

    Attributes:
        standing: What its machine says; ``None`` when it says nothing.
        silent_s: For how many seconds it has said nothing.
        tried_s: For how many seconds it has been under way.
        unwell: What is wrong with its agent though nobody has touched it; empty when nothing, ``None`` before anybody
            looked.
        fetched: Whether this runner has brought the release to the machine.
        unheard: Why this runner could not confirm it, though it tried; empty when it did not.
        ending: Whether nobody new is to be touched, and who is not confirmed shall go back.
    """

    target: RolloutTarget
    standing: Standing | None
    silent_s: float
    tried_s: float
    unwell: str | None
    fetched: bool
    unheard: str
    ending: bool
    now: datetime


def next_act(scene: Scene, release: ReleaseId, spec: Spec) -> Act:
    """The next thing to do for a target.

    Args:
        scene: The target and its machine.
        release: What it shall run.
        spec: How patient one is.
    """
    if scene.standing is None:
        return _in_silence(scene, spec)
    if scene.target.touched_at is None:
        return _untouched(scene, scene.standing, release, spec)
    return _touched(scene, scene.standing, release, spec)


def _in_silence(scene: Scene, spec: Spec) -> Act:
    if scene.silent_s < spec.patience_s and scene.tried_s < spec.attempt_s:
        return Await()
    words = f"no answer for {scene.silent_s:.0f} s"
    if scene.target.touched_at is None:
        if scene.silent_s < spec.patience_s:  # whoever else works on it takes too long
            words = f"not begun after {scene.tried_s:.0f} s"
        return Settle(TargetState.UNREACHABLE, words)
    return Settle(TargetState.SILENT, f"{words} since it was told to change")


def _untouched(scene: Scene, standing: Standing, release: ReleaseId, spec: Spec) -> Act:
    if scene.ending:
        return Settle(TargetState.WAITING)
    if standing.absent:
        return Settle(TargetState.OWED, standing.absent)
    if standing.current == release and not standing.activation:
        return Settle(TargetState.HEALTHY, "ran it already")
    if scene.tried_s >= spec.attempt_s:
        return Settle(TargetState.UNREACHABLE, f"not begun after {scene.tried_s:.0f} s")
    if standing.activation:
        return Await()
    if standing.busy and not spec.emergency and not is_overdue(scene.target, scene.now, spec):
        return Settle(TargetState.DEFERRED, f"busy: {standing.busy}")
    return _unless_unwell(scene, Activate() if scene.fetched else Fetch(), spec)


def _unless_unwell(scene: Scene, act: Act, spec: Spec) -> Act:
    """An agent that does not answer now would not after the change: that would be no word about the release."""
    if spec.emergency:
        return act
    if scene.unwell is None:
        return ObserveAgent()
    return Settle(TargetState.UNREACHABLE, f"before anything was changed, {scene.unwell}") if scene.unwell else act


def _touched(scene: Scene, standing: Standing, release: ReleaseId, spec: Spec) -> Act:
    if standing.activation == release:
        if standing.phase != "unconfirmed":
            return _patiently(scene, standing, spec)
        return _unless_late(scene, GoBack() if scene.ending else Confirm(), spec)
    if standing.current == release and not standing.activation:
        return Settle(TargetState.SOAKING, on_release=True)
    told = standing.last != scene.target.progress.said_before
    if told and standing.last_to == release and standing.last_failed:
        return _went_back(scene, standing)
    if standing.activation:
        return _patiently(scene, standing, spec)
    return Settle(TargetState.WAITING) if scene.ending else _unless_late(scene, Activate(), spec)


def _went_back(scene: Scene, standing: Standing) -> Act:
    """Its machine is on the old release again. Where nobody was there to confirm, that is not the release's fault."""
    if scene.ending:
        return Settle(TargetState.ROLLED_BACK, standing.why)
    if not standing.lapsed:
        return Settle(TargetState.FAILED, standing.why or "its machine went back and did not say why")
    if scene.unheard:
        return Settle(TargetState.FAILED, scene.unheard)
    if scene.target.progress.lapses:
        return Settle(TargetState.TIMED_OUT, "it went back twice before anybody confirmed it")
    return BeginAnew()


def _patiently(scene: Scene, standing: Standing, spec: Spec) -> Act:
    return _unless_late(scene, Await(), spec, f" in {standing.phase or 'a change'}")


def _unless_late(scene: Scene, act: Act, spec: Spec, where: str = "") -> Act:
    if scene.tried_s < spec.attempt_s:
        return act
    return Settle(TargetState.TIMED_OUT, f"not done after {scene.tried_s:.0f} s{where}; it goes back by itself")


def deferral(target: RolloutTarget, now: datetime, spec: Spec) -> datetime:
    """Until when a target may be deferred; the first deferral counts."""
    return target.progress.deferred_until or now + timedelta(seconds=spec.defer_s)


def is_overdue(target: RolloutTarget, now: datetime, spec: Spec) -> bool:
    """Whether it is a target's turn whatever it or its user does."""
    return deferral(target, now, spec) <= now
