"""What is next in a rollout. Pure: the same sight gives the same decision, with the reason and the figures behind it.

Gates are heard first, in every state in which anybody runs the new release for them to hurt, also while it is paused.
"""

from datetime import datetime, timedelta
from typing import assert_never

from hermesops.model.operation import Done
from hermesops.model.rollout import GateResult, RolloutState, RolloutTarget, TargetState
from hermesops.model.rollout_spec import HaltRollback
from hermesops.rollout.actions import Change, Decision, DeployTargets, Notify, RollBackTargets, UpdateTargets, Wait
from hermesops.rollout.events import Notified, StateChanged
from hermesops.rollout.gates.judgement import Judgement, evidence_of, judge
from hermesops.rollout.observation import RolloutObservation, count_states
from hermesops.rollout.plan.windows import closed_at
from hermesops.rollout.reports.progress_lines import names
from hermesops.rollout.stage_entry import LOOK_S, altered, objections, refuse_stage_entry
from hermesops.rollout.target.updates import (
    changed_by_health,
    deferred_by_hour,
    instead_of_unanswered,
    instead_of_unseen,
    out_of_contact,
    outdated_at_end,
)

IDLE_S = 60.0
"""Seconds between two looks when nobody soaks."""


def decide(observation: RolloutObservation) -> Decision | Done:
    """The next step of a rollout, or how it ended."""
    told = _notify(observation)
    if told:
        return told
    match observation.rollout.state:
        case RolloutState.PENDING:
            return Decision(Change(RolloutState.RUNNING), observation.rollout.reason)
        case RolloutState.RUNNING | RolloutState.PAUSED:
            return _watchfully(observation)
        case RolloutState.HALTED:
            return (
                _finish_flights(observation)
                or _roll_back(observation, _failed_after_halt(observation))
                or _ended(observation)
            )
        case RolloutState.ABORTING:
            return (
                _finish_flights(observation)
                or _roll_back(observation, _failed(observation))
                or _over(observation, RolloutState.ABORTED)
            )
        case RolloutState.ROLLING_BACK:
            return (
                _finish_flights(observation)
                or _roll_back(observation, _all_changed(observation))
                or _rolled_back(observation)
            )
        case RolloutState.ABORTED | RolloutState.DONE | RolloutState.ROLLED_BACK:
            return _ended(observation)
        case _ as never:
            assert_never(never)


def _notify(observation: RolloutObservation) -> Decision | None:
    changed, notified = observation.records.newest(StateChanged), observation.records.newest(Notified)
    if changed is None or (notified and notified.event.of == changed.id):
        return None
    return Decision(Notify(changed), f"notify: the rollout is {observation.rollout.state.replace('_', ' ')}")


def _watchfully(observation: RolloutObservation) -> Decision:
    """What comes before anything new: those failed, a gate that fails, those under way."""
    updates = changed_by_health(observation)
    if updates:
        return Decision(
            UpdateTargets(updates),
            _counted_updates(updates),
            {"targets": {one.id: one.detail for one in updates if one.detail}},
        )
    judgement = judge(observation.rollout, observation.targets, observation.watched, at_end=_is_at_end(observation))
    for gate in (judgement.answers, judgement.failures, judgement.health):
        if gate.result is GateResult.FAIL:
            return Decision(Change(RolloutState.HALTED), gate.why, evidence_of(judgement))
    before = _finish_flights(observation) or _roll_back(observation, _failed(observation))
    if before:
        return before
    if observation.rollout.state is RolloutState.PAUSED:
        return _wait(observation, LOOK_S, f"paused: {observation.rollout.reason}")
    return _forward(observation, judgement)


def _forward(observation: RolloutObservation, judgement: Judgement) -> Decision:
    """More of it, or why not now."""
    pending = observation.pending()
    if not pending:
        return _end_of_batches(observation, judgement)
    closed = (
        None
        if observation.spec.emergency
        else closed_at(observation.now, observation.spec.windows, observation.freezes)
    )
    if closed:
        return _wait(observation, IDLE_S, closed.why, closed.until)
    entered = observation.entered()
    enters = pending[0].stage > entered
    instead = instead_of_unseen(observation) if enters else ()
    if instead:
        words = f"{names(instead)} instead of those of stage {entered + 1} that give no proper answer"
        return Decision(UpdateTargets(instead), words, evidence_of(judgement))
    first, later = instead_of_unanswered(observation)
    if first:
        words = f"{names(first)} first: no answer yet from {names(later)}"
        return Decision(UpdateTargets((*first, *later)), words, evidence_of(judgement))
    door = (
        refuse_stage_entry(observation, judgement, pending[0].stage)
        if enters
        else altered(observation, judgement, entered)
    )
    if door:
        return door
    return _next_batch(observation, judgement, pending, entered)


def _next_batch(
    observation: RolloutObservation, judgement: Judgement, pending: tuple[RolloutTarget, ...], entered: int
) -> Decision:
    settled = observation.settled_at()
    if settled and settled > observation.now:
        return _wait(observation, LOOK_S, "the next batch waits until the last one has settled", settled)
    room = observation.at_once - len(_down(observation))
    if room <= 0:
        words = f"as many are down as may be at once: {', '.join(one.facts.user for one in _down(observation))}"
        return Decision(Change(RolloutState.PAUSED), words, evidence_of(judgement))
    unseen = out_of_contact(observation, pending)
    if unseen:
        return Decision(UpdateTargets(unseen), _counted_updates(unseen), evidence_of(judgement))
    first = next((one for one in pending if one.id not in observation.unanswered), pending[0])
    if first.id in observation.unanswered or first.stage > pending[0].stage:
        return _wait(observation, 1.0, f"{len(observation.unanswered)} have not answered yet")
    late = first.stage < entered
    batch = tuple(
        one
        for one in pending
        if (one.stage < entered if late else (one.stage, one.batch) == (first.stage, first.batch))
    )
    quiet = deferred_by_hour(observation, batch)
    if quiet:
        return Decision(UpdateTargets(quiet), f"{len(quiet)} deferred: quiet hours", {})
    chosen = tuple(one for one in batch if one.id not in observation.unanswered)[:room]
    where = "deferred ones" if late else f"stage {first.stage + 1}, batch {first.batch + 1}"
    return Decision(
        DeployTargets(chosen), f"{where}: deploy {observation.rollout.release} to {len(chosen)}", evidence_of(judgement)
    )


def _end_of_batches(observation: RolloutObservation, judgement: Judgement) -> Decision:
    deferred = observation.in_state(TargetState.DEFERRED)
    ends = observation.soak_ends()
    if ends and observation.rollout.decisions.promoted < len(observation.spec.stages):
        return _wait(observation, LOOK_S, f"the last stage soaks until {ends:%H:%M:%S} UTC", ends)
    if deferred:
        return _wait(observation, IDLE_S, f"{len(deferred)} are busy or have quiet hours")
    outdated = outdated_at_end(observation)
    if outdated:
        words = f"{len(outdated)} did not get the release: hermesops fleet outdated lists them"
        return Decision(UpdateTargets(outdated), words, evidence_of(judgement))
    objection = objections(observation, judgement)
    if objection:
        return objection
    reached = sum(target.state.is_well for target in observation.targets)
    words = f"{reached} of {len(observation.targets)} run {observation.rollout.release}{_left_over(observation)}"
    return Decision(Change(RolloutState.DONE), words, {**evidence_of(judgement), "targets": _counts(observation)})


def _finish_flights(observation: RolloutObservation) -> Decision | None:
    flying = observation.in_flight()
    if not flying:
        return None
    return Decision(DeployTargets(flying), f"{len(flying)} were changing already: finish them first")


def _roll_back(observation: RolloutObservation, which: tuple[RolloutTarget, ...]) -> Decision | None:
    if not which:
        return None
    return Decision(
        RollBackTargets(which, observation.at_once), f"roll back {len(which)} to the release from before", {}
    )


def _failed(observation: RolloutObservation) -> tuple[RolloutTarget, ...]:
    """Those that failed on the new release, and were not put back yet."""
    if observation.spec.on_halt is HaltRollback.NONE:
        return ()
    return tuple(one for one in observation.targets if one.state.has_failed and _can_go_back(one))


def _failed_after_halt(observation: RolloutObservation) -> tuple[RolloutTarget, ...]:
    """Nobody looks on after a halt, so whoever still soaks is not left on a release that hurt others."""
    if observation.spec.on_halt is not HaltRollback.FAILED:
        return _all_changed(observation) if observation.spec.on_halt is HaltRollback.ALL else ()
    unproven = {one.id for one in observation.in_state(TargetState.SOAKING)}
    return tuple(one for one in _all_changed(observation) if one.state.has_failed or one.id in unproven)


def _all_changed(observation: RolloutObservation) -> tuple[RolloutTarget, ...]:
    return tuple(one for one in observation.targets if _can_go_back(one) and one.state is not TargetState.KEPT)


def _can_go_back(target: RolloutTarget) -> bool:
    return target.progress.on_release and not target.progress.stuck


def _down(observation: RolloutObservation) -> tuple[RolloutTarget, ...]:
    """Those that we changed and of which nobody knows whether they serve their users."""
    unknown = observation.in_state(TargetState.SILENT, TargetState.TIMED_OUT)
    return tuple(one for one in unknown if one.touched_at and not observation.rollout.decisions.forgive(one))


def _is_at_end(observation: RolloutObservation) -> bool:
    """Whether a stage is about to end: nobody soaks, and whoever is next is of a further one."""
    pending = observation.pending()
    if observation.in_state(TargetState.SOAKING) or observation.in_flight():
        return False
    return observation.rollout.state is RolloutState.RUNNING and (
        not pending or pending[0].stage > observation.entered()
    )


def _wait(observation: RolloutObservation, seconds: float, why: str, until: datetime | None = None) -> Decision:
    if observation.in_state(TargetState.SOAKING):
        seconds = min(seconds, LOOK_S)
    if until:
        seconds = min(seconds, (until - observation.now) / timedelta(seconds=1))
    return Decision(Wait(max(1.0, seconds)), why)


def _over(observation: RolloutObservation, state: RolloutState) -> Decision:
    return Decision(Change(state), observation.rollout.reason, {"targets": _counts(observation)})


def _rolled_back(observation: RolloutObservation) -> Decision:
    back = len(observation.in_state(TargetState.ROLLED_BACK))
    stay = [one for one in observation.targets if one.progress.on_release]
    words = f"{back} are back on the release from before" + (f", {len(stay)} could not go back" if stay else "")
    return Decision(Change(RolloutState.ROLLED_BACK), words, {"targets": _counts(observation)})


def _ended(observation: RolloutObservation) -> Done:
    return Done(f"{observation.rollout.state.replace('_', ' ')}: {observation.rollout.reason}")


def _left_over(observation: RolloutObservation) -> str:
    left = {state: number for state, number in count_states(observation.targets).items() if not state.is_well}
    return "".join(f", {number} {state.replace('_', ' ')}" for state, number in left.items())


def _counts(observation: RolloutObservation) -> dict[str, int]:
    return {state.value: number for state, number in count_states(observation.targets).items()}


def _counted_updates(updates: tuple[RolloutTarget, ...]) -> str:
    parts = count_states(updates)
    return ", ".join(f"{number} {state.replace('_', ' ')}" for state, number in parts.items())
