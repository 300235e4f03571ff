"""What is next in a rollout. Pure: the same sight gives the same decision, with the reason and the figures behind it.

Gates are heard first, in every state in which anybody runs the new release for them to hurt, also while it is paused.
"""

from datetime import datetime, timedelta
from typing import assert_never

from hermesops.model.operation import Finished
from hermesops.model.rollout import GateResult, RolloutState, RolloutTarget, TargetState
from hermesops.model.rollout_spec import HurtCare
from hermesops.rollout.actions import Bring, Change, Decision, Mark, Notify, Return, Wait
from hermesops.rollout.gates.judgement import Judgement, evidence_of, judge
from hermesops.rollout.observation import Sight, count_states
from hermesops.rollout.plan.windows import closed_at
from hermesops.rollout.reports.progress_lines import names
from hermesops.rollout.stage_entry import LOOK_S, altered, closed_door, objections
from hermesops.rollout.target.updates import (
    changed_by_health,
    deferred_by_hour,
    instead_of_unanswered,
    instead_of_unseen,
    out_of_sight,
    owed_at_end,
)

IDLE_S = 60.0
"""Seconds between two looks when nobody soaks."""


def decide(sight: Sight) -> Decision | Finished:
    """The next step of a rollout, or how it ended."""
    told = _notify(sight)
    if told:
        return told
    match sight.rollout.state:
        case RolloutState.PENDING:
            return Decision(Change(RolloutState.RUNNING), sight.rollout.reason)
        case RolloutState.RUNNING | RolloutState.PAUSED:
            return _watchfully(sight)
        case RolloutState.HALTED:
            return _finish_flights(sight) or _put_back(sight, _hurt_after_halt(sight)) or _ended(sight)
        case RolloutState.ABORTING:
            return _finish_flights(sight) or _put_back(sight, _hurt(sight)) or _over(sight, RolloutState.ABORTED)
        case RolloutState.ROLLING_BACK:
            return _finish_flights(sight) or _put_back(sight, _all_changed(sight)) or _rolled_back(sight)
        case RolloutState.ABORTED | RolloutState.DONE | RolloutState.ROLLED_BACK:
            return _ended(sight)
        case _ as never:
            assert_never(never)


def _notify(sight: Sight) -> Decision | None:
    changed, notified = sight.latest("state"), sight.latest("notify")
    if changed is None or (notified and notified.decision.get("of") == changed.id):
        return None
    return Decision(Notify(changed), f"notify: the rollout is {sight.rollout.state.replace('_', ' ')}")


def _watchfully(sight: Sight) -> Decision:
    """What comes before anything new: those hurt, a gate that fails, those under way."""
    marks = changed_by_health(sight)
    if marks:
        return Decision(Mark(marks), _marked(marks), {"targets": {one.id: one.detail for one in marks if one.detail}})
    judgement = judge(sight.rollout, sight.targets, sight.watched, at_end=_is_at_end(sight))
    for gate in (judgement.sight, judgement.failures, judgement.health):
        if gate.result is GateResult.FAIL:
            return Decision(Change(RolloutState.HALTED), gate.why, evidence_of(judgement))
    before = _finish_flights(sight) or _put_back(sight, _hurt(sight))
    if before:
        return before
    if sight.rollout.state is RolloutState.PAUSED:
        return _wait(sight, LOOK_S, f"paused: {sight.rollout.reason}")
    return _forward(sight, judgement)


def _forward(sight: Sight, judgement: Judgement) -> Decision:
    """More of it, or why not now."""
    pending = sight.pending()
    if not pending:
        return _end_of_course(sight, judgement)
    closed = None if sight.spec.emergency else closed_at(sight.now, sight.spec.windows, sight.freezes)
    if closed:
        return _wait(sight, IDLE_S, closed.why, closed.until)
    entered = sight.entered()
    enters = pending[0].stage > entered
    instead = instead_of_unseen(sight) if enters else ()
    if instead:
        words = f"{names(instead)} instead of those of stage {entered + 1} that give no proper answer"
        return Decision(Mark(instead), words, evidence_of(judgement))
    first, later = instead_of_unanswered(sight)
    if first:
        words = f"{names(first)} first: no answer yet from {names(later)}"
        return Decision(Mark((*first, *later)), words, evidence_of(judgement))
    door = closed_door(sight, judgement, pending[0].stage) if enters else altered(sight, judgement, entered)
    if door:
        return door
    return _next_batch(sight, judgement, pending, entered)


def _next_batch(sight: Sight, judgement: Judgement, pending: tuple[RolloutTarget, ...], entered: int) -> Decision:
    settled = sight.settled_at()
    if settled and settled > sight.now:
        return _wait(sight, LOOK_S, "the next batch waits until the last one has settled", settled)
    room = sight.at_once - len(_down(sight))
    if room <= 0:
        words = f"as many are down as may be at once: {', '.join(one.facts.user for one in _down(sight))}"
        return Decision(Change(RolloutState.PAUSED), words, evidence_of(judgement))
    unseen = out_of_sight(sight, pending)
    if unseen:
        return Decision(Mark(unseen), _marked(unseen), evidence_of(judgement))
    first = next((one for one in pending if one.id not in sight.unanswered), pending[0])
    if first.id in sight.unanswered or first.stage > pending[0].stage:
        return _wait(sight, 1.0, f"{len(sight.unanswered)} have not answered yet")
    late = first.stage < entered
    batch = tuple(
        one
        for one in pending
        if (one.stage < entered if late else (one.stage, one.batch) == (first.stage, first.batch))
    )
    quiet = deferred_by_hour(sight, batch)
    if quiet:
        return Decision(Mark(quiet), f"{len(quiet)} deferred: quiet hours", {})
    chosen = tuple(one for one in batch if one.id not in sight.unanswered)[:room]
    where = "deferred ones" if late else f"stage {first.stage + 1}, batch {first.batch + 1}"
    return Decision(Bring(chosen), f"{where}: deploy {sight.rollout.release} to {len(chosen)}", evidence_of(judgement))


def _end_of_course(sight: Sight, judgement: Judgement) -> Decision:
    deferred = sight.in_state(TargetState.DEFERRED)
    ends = sight.soak_ends()
    if ends and sight.rollout.wishes.promoted < len(sight.spec.stages):
        return _wait(sight, LOOK_S, f"the last stage soaks until {ends:%H:%M:%S} UTC", ends)
    if deferred:
        return _wait(sight, IDLE_S, f"{len(deferred)} are busy or have quiet hours")
    owed = owed_at_end(sight)
    if owed:
        words = f"{len(owed)} did not get the release: hermesops fleet owed lists them"
        return Decision(Mark(owed), words, evidence_of(judgement))
    objection = objections(sight, judgement)
    if objection:
        return objection
    reached = sum(target.state.is_well for target in sight.targets)
    words = f"{reached} of {len(sight.targets)} run {sight.rollout.release}{_left_over(sight)}"
    return Decision(Change(RolloutState.DONE), words, {**evidence_of(judgement), "targets": _counts(sight)})


def _finish_flights(sight: Sight) -> Decision | None:
    flying = sight.in_flight()
    if not flying:
        return None
    return Decision(Bring(flying), f"{len(flying)} were changing already: finish them first")


def _put_back(sight: Sight, which: tuple[RolloutTarget, ...]) -> Decision | None:
    if not which:
        return None
    return Decision(Return(which, sight.at_once), f"roll back {len(which)} to the release from before", {})


def _hurt(sight: Sight) -> tuple[RolloutTarget, ...]:
    """Those that failed on the new release, and were not put back yet."""
    if sight.spec.on_halt is HurtCare.NOBODY:
        return ()
    return tuple(one for one in sight.targets if one.state.has_failed and _can_go_back(one))


def _hurt_after_halt(sight: Sight) -> tuple[RolloutTarget, ...]:
    """Nobody looks on after a halt, so whoever still soaks is not left on a release that hurt others."""
    if sight.spec.on_halt is not HurtCare.HURT:
        return _all_changed(sight) if sight.spec.on_halt is HurtCare.ALL else ()
    unproven = {one.id for one in sight.in_state(TargetState.SOAKING)}
    return tuple(one for one in _all_changed(sight) if one.state.has_failed or one.id in unproven)


def _all_changed(sight: Sight) -> tuple[RolloutTarget, ...]:
    return tuple(one for one in sight.targets if _can_go_back(one) and one.state is not TargetState.KEPT)


def _can_go_back(target: RolloutTarget) -> bool:
    return target.progress.on_release and not target.progress.stuck


def _down(sight: Sight) -> tuple[RolloutTarget, ...]:
    """Those that we changed and of which nobody knows whether they serve their users."""
    unknown = sight.in_state(TargetState.SILENT, TargetState.TIMED_OUT)
    return tuple(one for one in unknown if one.touched_at and not sight.rollout.wishes.forgive(one))


def _is_at_end(sight: Sight) -> bool:
    """Whether a stage is about to end: nobody soaks, and whoever is next is of a further one."""
    pending = sight.pending()
    if sight.in_state(TargetState.SOAKING) or sight.in_flight():
        return False
    return sight.rollout.state is RolloutState.RUNNING and (not pending or pending[0].stage > sight.entered())


def _wait(sight: Sight, seconds: float, why: str, until: datetime | None = None) -> Decision:
    if sight.in_state(TargetState.SOAKING):
        seconds = min(seconds, LOOK_S)
    if until:
        seconds = min(seconds, (until - sight.now) / timedelta(seconds=1))
    return Decision(Wait(max(1.0, seconds)), why)


def _over(sight: Sight, state: RolloutState) -> Decision:
    return Decision(Change(state), sight.rollout.reason, {"targets": _counts(sight)})


def _rolled_back(sight: Sight) -> Decision:
    back = len(sight.in_state(TargetState.ROLLED_BACK))
    stay = [one for one in sight.targets if one.progress.on_release]
    words = f"{back} are back on the release from before" + (f", {len(stay)} could not go back" if stay else "")
    return Decision(Change(RolloutState.ROLLED_BACK), words, {"targets": _counts(sight)})


def _ended(sight: Sight) -> Finished:
    return Finished(f"{sight.rollout.state.replace('_', ' ')}: {sight.rollout.reason}")


def _left_over(sight: Sight) -> str:
    left = {state: number for state, number in count_states(sight.targets).items() if not state.is_well}
    return "".join(f", {number} {state.replace('_', ' ')}" for state, number in left.items())


def _counts(sight: Sight) -> dict[str, int]:
    return {state.value: number for state, number in count_states(sight.targets).items()}


def _marked(marks: tuple[RolloutTarget, ...]) -> str:
    parts = count_states(marks)
    return ", ".join(f"{number} {state.replace('_', ' ')}" for state, number in parts.items())
