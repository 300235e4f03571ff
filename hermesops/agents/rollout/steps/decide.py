"""The next step of a rollout. Pure: one observation leads to one decision, with its reason and figures.

Gates are judged first, in every state in which targets run the new release, also while the rollout is paused.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import assert_never

from hermesops.agents.rollout.gates.judgement import Judgement, evidence_of, judge
from hermesops.agents.rollout.plan.open_alerts import held_by_alerts
from hermesops.agents.rollout.plan.windows import closed_at
from hermesops.agents.rollout.records.events import Notified, StateChanged
from hermesops.agents.rollout.steps.actions import (
    Change,
    Decision,
    DeployTargets,
    Notify,
    RollBackTargets,
    UpdateTargets,
    Wait,
)
from hermesops.agents.rollout.steps.observation import RolloutObservation, count_states
from hermesops.agents.rollout.steps.stage_entry import (
    OBSERVE_S,
    refuse_altered_approval,
    refuse_end,
    refuse_stage_entry,
)
from hermesops.agents.rollout.target.updates import (
    changed_by_health,
    deferred_by_hour,
    instead_of_unanswered,
    instead_of_unseen,
    out_of_contact,
    outdated_at_end,
)
from hermesops.agents.rollout.target_names import names
from hermesops.base.narration import counted
from hermesops.model.operation import Done
from hermesops.model.rollout.records import GateResult, RolloutState, RolloutTarget, TargetState
from hermesops.model.rollout.spec import HaltRollback

IDLE_S = 60.0
"""Seconds between two observations when no target soaks."""


def decide(observation: RolloutObservation) -> Decision | Done:
    """The next step of a rollout, or how it ended."""
    notify = _notify(observation)
    if notify:
        return notify
    rollout = observation.rollout
    to_roll_back: tuple[RolloutTarget, ...]
    end: Decision | Done
    match rollout.state:
        case RolloutState.PENDING:
            return Decision(Change(RolloutState.RUNNING), rollout.reason)
        case RolloutState.RUNNING | RolloutState.PAUSED:
            return _guarded(observation)
        case RolloutState.HALTED:
            to_roll_back, end = _failed_after_halt(observation), _ended(observation)
        case RolloutState.ABORTING:
            counts = {"targets": _counts(observation)}
            to_roll_back, end = _failed(observation), Decision(Change(RolloutState.ABORTED), rollout.reason, counts)
        case RolloutState.ROLLING_BACK:
            to_roll_back, end = _all_changed(observation), _rolled_back(observation)
        case RolloutState.ABORTED | RolloutState.DONE | RolloutState.ROLLED_BACK:
            return _ended(observation)
        case _ as never:
            assert_never(never)
    return _finish_flights(observation) or _roll_back(observation, to_roll_back) or end


NOTIFIES, PAUSED = "notify: ", "paused by "
"""Beginnings of two steps that say no more than the state of the rollout: a message to a web hook, and a pause."""


def _notify(observation: RolloutObservation) -> Decision | None:
    changed, notified = observation.records.newest(StateChanged), observation.records.newest(Notified)
    if changed is None or (notified and notified.event.of == changed.id):
        return None
    return Decision(Notify(changed), f"{NOTIFIES}the rollout is {observation.rollout.state.replace('_', ' ')}")


def _guarded(observation: RolloutObservation) -> Decision:
    """Steps before further targets: failed ones, a failing gate, those in flight."""
    updates = changed_by_health(observation)
    if updates:
        details = {"targets": {target.id: target.detail for target in updates if target.detail}}
        return Decision(UpdateTargets(updates), _states(updates), details)
    judgement = judge(observation.rollout, observation.targets, observation.health, at_end=_is_at_end(observation))
    for gate in (judgement.answers, judgement.failures, judgement.health, judgement.messages):
        if gate.result is GateResult.FAIL:
            return Decision(Change(RolloutState.HALTED), gate.why, evidence_of(judgement))
    before = _finish_flights(observation) or _roll_back(observation, _failed(observation))
    if before:
        return before
    if observation.rollout.state is RolloutState.PAUSED:
        return _wait(observation, OBSERVE_S, f"{PAUSED}{observation.rollout.who}: {observation.rollout.reason}")
    return _forward(observation, judgement)


def _forward(observation: RolloutObservation, judgement: Judgement) -> Decision:
    """Deploy to more targets, or the reason to wait."""
    pending, evidence = observation.pending(), evidence_of(judgement)
    if not pending:
        return _end_of_batches(observation, judgement)
    closed = closed_at(observation.now, observation.spec.windows, observation.records.freezes)
    if closed and not observation.spec.emergency:
        return _wait(observation, IDLE_S, closed.why, closed.until, is_held=True)
    hold = held_by_alerts(observation.alerts, observation.targets, observation.spec)
    if hold:
        return _wait(observation, OBSERVE_S, hold, is_held=True)
    entered = observation.entered()
    enters = pending[0].stage > entered
    instead = instead_of_unseen(observation) if enters else ()
    if instead:
        words = f"{names(instead)} instead of the agents of stage {entered + 1} that do not answer"
        return Decision(UpdateTargets(instead), words, evidence)
    first, later = instead_of_unanswered(observation)
    if first:
        words = f"{names(first)} first: no answer yet from {names(later)}"
        return Decision(UpdateTargets((*first, *later)), words, evidence)
    refusal = (
        refuse_stage_entry(observation, judgement, pending[0].stage)
        if enters
        else refuse_altered_approval(observation, judgement, entered)
    )
    return refusal or _next_batch(observation, judgement, pending, entered)


def _next_batch(
    observation: RolloutObservation, judgement: Judgement, pending: tuple[RolloutTarget, ...], entered: int
) -> Decision:
    settled, evidence = observation.settled_at(), evidence_of(judgement)
    if settled and settled > observation.now:
        return _wait(observation, OBSERVE_S, f"the next batch begins at {settled:%H:%M:%S} UTC", settled)
    down = _down(observation)
    room = observation.at_once - len(down)
    if room <= 0:
        words = f"{counted(len(down), 'agent')} down, the limit is {observation.at_once}: {names(down)}"
        return Decision(Change(RolloutState.PAUSED), words, evidence)
    unseen = out_of_contact(observation, pending)
    if unseen:
        return Decision(UpdateTargets(unseen), _states(unseen), evidence)
    unanswered = observation.answers.unanswered
    first = next((target for target in pending if target.id not in unanswered), pending[0])
    if first.id in unanswered or first.stage > pending[0].stage:
        return _wait(observation, 1.0, f"no answer yet from {counted(len(unanswered), 'agent')}")
    is_late = first.stage < entered
    batch = tuple(
        target
        for target in pending
        if (target.stage < entered if is_late else (target.stage, target.batch) == (first.stage, first.batch))
    )
    quiet = deferred_by_hour(observation, batch)
    if quiet:
        return Decision(UpdateTargets(quiet), f"{counted(len(quiet), 'agent')} deferred: quiet hours", {})
    chosen = tuple(target for target in batch if target.id not in unanswered)[:room]
    where = "deferred ones" if is_late else f"stage {first.stage + 1}, batch {first.batch + 1}"
    words = f"{where}: deploy {observation.rollout.release} to {counted(len(chosen), 'agent')}"
    return Decision(DeployTargets(chosen), words, evidence)


def _end_of_batches(observation: RolloutObservation, judgement: Judgement) -> Decision:
    deferred = observation.in_state(TargetState.DEFERRED)
    ends = observation.soak_ends()
    if ends and observation.rollout.decisions.promoted < len(observation.spec.stages):
        return _wait(observation, OBSERVE_S, f"the last stage soaks until {ends:%H:%M:%S} UTC", ends)
    if deferred:
        return _wait(observation, IDLE_S, f"{counted(len(deferred), 'agent')} deferred: busy, or in quiet hours")
    outdated = outdated_at_end(observation)
    if outdated:
        words = f"{counted(len(outdated), 'agent')} did not get the release; hermesops fleet outdated lists them"
        return Decision(UpdateTargets(outdated), words, evidence_of(judgement))
    refusal = refuse_end(observation, judgement)
    if refusal:
        return refusal
    reached = sum(target.state.is_well for target in observation.targets)
    others = _states(target for target in observation.targets if not target.state.is_well)
    words = f"{reached} of {counted(len(observation.targets), 'agent')} on {observation.rollout.release}"
    words += f", {others}" if others else ""
    return Decision(Change(RolloutState.DONE), words, {**evidence_of(judgement), "targets": _counts(observation)})


def _finish_flights(observation: RolloutObservation) -> Decision | None:
    flying = observation.in_flight()
    if not flying:
        return None
    return Decision(DeployTargets(flying), f"finish first the change of {names(flying)}")


def _roll_back(observation: RolloutObservation, targets: tuple[RolloutTarget, ...]) -> Decision | None:
    if not targets:
        return None
    words = f"roll {counted(len(targets), 'agent')} back to the previous release"
    return Decision(RollBackTargets(targets, observation.at_once), words)


def _failed(observation: RolloutObservation) -> tuple[RolloutTarget, ...]:
    """Targets that failed on the new release and have not been rolled back."""
    if observation.spec.on_halt is HaltRollback.NONE:
        return ()
    return tuple(target for target in observation.targets if target.state.has_failed and _can_go_back(target))


def _failed_after_halt(observation: RolloutObservation) -> tuple[RolloutTarget, ...]:
    """After a halt health is not observed any more, so a target that still soaks may not stay on a bad release."""
    if observation.spec.on_halt is not HaltRollback.FAILED:
        return _all_changed(observation) if observation.spec.on_halt is HaltRollback.ALL else ()
    unproven = {target.id for target in observation.in_state(TargetState.SOAKING)}
    return tuple(target for target in _all_changed(observation) if target.state.has_failed or target.id in unproven)


def _all_changed(observation: RolloutObservation) -> tuple[RolloutTarget, ...]:
    return tuple(
        target for target in observation.targets if _can_go_back(target) and target.state is not TargetState.KEPT
    )


def _can_go_back(target: RolloutTarget) -> bool:
    return target.progress.on_release and not target.progress.stuck


def _went_back(target: RolloutTarget) -> bool:
    """Whether its machine is on the previous release again; one that failed stays failed, wherever it is."""
    is_of_release = target.state is TargetState.ROLLED_BACK or target.state.has_failed
    return is_of_release and target.touched_at is not None and not target.progress.on_release


def _down(observation: RolloutObservation) -> tuple[RolloutTarget, ...]:
    """Changed targets not known to serve their users."""
    unknown = observation.in_state(TargetState.SILENT, TargetState.TIMED_OUT)
    return tuple(
        target for target in unknown if target.touched_at and not observation.rollout.decisions.forgive(target)
    )


def _is_at_end(observation: RolloutObservation) -> bool:
    """Whether a stage is about to end: no target soaks, and the next one is of a further stage."""
    pending = observation.pending()
    if observation.in_state(TargetState.SOAKING) or observation.in_flight():
        return False
    return observation.rollout.state is RolloutState.RUNNING and (
        not pending or pending[0].stage > observation.entered()
    )


def _wait(
    observation: RolloutObservation, seconds: float, why: str, until: datetime | None = None, *, is_held: bool = False
) -> Decision:
    if observation.in_state(TargetState.SOAKING):
        seconds = min(seconds, OBSERVE_S)
    if until:
        seconds = min(seconds, (until - observation.now) / timedelta(seconds=1))
    return Decision(Wait(max(1.0, seconds), is_held), why)


def _rolled_back(observation: RolloutObservation) -> Decision:
    back = sum(map(_went_back, observation.targets))
    stay = sum(target.progress.on_release for target in observation.targets)
    lost = sum(bool(target.progress.settings_lost) for target in observation.targets)
    words = f"{counted(back, 'agent')} rolled back to the previous release" + (f", {stay} not" if stay else "")
    words += f"; {counted(lost, 'agent')} with settings that are not in force any more" if lost else ""
    return Decision(Change(RolloutState.ROLLED_BACK), words, {"targets": _counts(observation)})


def _ended(observation: RolloutObservation) -> Done:
    return Done(f"{observation.rollout.state.replace('_', ' ')}: {observation.rollout.reason}")


def _counts(observation: RolloutObservation) -> dict[str, int]:
    return {state.value: number for state, number in count_states(observation.targets).items()}


def _states(targets: Iterable[RolloutTarget]) -> str:
    """How many targets are in each state, in words."""
    return ", ".join(f"{number} {state.replace('_', ' ')}" for state, number in count_states(targets).items())
