"""Conditions of each further stage, and of the end of the rollout. Pure.

The failure gate need not pass here: it is sequential and needs more targets to decide. All others must. ``promote``
overrides those that need more data or a person; nothing overrides a failing gate.
"""

from collections.abc import Iterator
from datetime import timedelta

from hermesops.agents.rollout.gates.judgement import Judgement, evidence_of, soaked_at
from hermesops.agents.rollout.plan.specs import blast_radius
from hermesops.agents.rollout.records.events import DrillEnded, Event, Recorded, StateChanged
from hermesops.agents.rollout.steps.actions import AskHook, Change, Decision, Drill, Step, Wait
from hermesops.agents.rollout.steps.observation import RolloutObservation
from hermesops.base.narration import counted
from hermesops.model.rollout.records import GateResult, RolloutState, TargetState
from hermesops.model.rollout.spec import DrillPolicy

OBSERVE_S = 10.0
"""Seconds between two observations of targets that soak."""

_DRILLED_STAGE = 1
"""The rollback is rehearsed before the second stage."""

NEEDS_APPROVAL = "needs a second operator's approval"
"""Part of the reason of a rollout that waits for one."""

Obstacles = Iterator[tuple[Step, str]]
"""Steps that must come first, each with its reason."""


def refuse_stage_entry(observation: RolloutObservation, judgement: Judgement, stage: int) -> Decision | None:
    """The step that must come before a stage, counted from 0; ``None`` when it may begin."""
    return _first(_before_stage(observation, judgement, stage), judgement)


def refuse_end(observation: RolloutObservation, judgement: Judgement) -> Decision | None:
    """The objection of a hook to the end of a rollout; ``None`` for none. They answer for its last stage."""
    return _first(_hooks(observation, len(observation.spec.stages), "the rollout may end"), judgement)


def refuse_altered_approval(observation: RolloutObservation, judgement: Judgement, stage: int) -> Decision | None:
    """Why a begun stage must stop: its approval no longer matches what was signed; ``None`` for no reason."""
    return _first(_second_operator(observation, stage), judgement) if observation.approval.objection else None


def _first(obstacles: Obstacles, judgement: Judgement) -> Decision | None:
    for step, why in obstacles:
        return Decision(step, why, evidence_of(judgement))
    return None


def _before_stage(observation: RolloutObservation, judgement: Judgement, stage: int) -> Obstacles:
    is_promoted = observation.rollout.decisions.promoted >= stage
    yield from _second_operator(observation, stage)
    if stage == _DRILLED_STAGE:
        yield from _rehearsal(observation, is_promoted=is_promoted)
    if stage > 0 and not is_promoted:
        yield from _soak(observation, judgement, stage)
    if stage > 0:
        yield from _hooks(observation, stage, f"stage {stage + 1} may begin")
    if stage + 1 in observation.spec.gates.manual_before and not is_promoted:
        yield (
            Change(RolloutState.PAUSED),
            f"stage {stage + 1} waits for an operator; hermesops rollout promote begins it",
        )


def _second_operator(observation: RolloutObservation, stage: int) -> Obstacles:
    after = [target for target in observation.targets if target.stage <= stage]
    approval, limit = observation.approval, min(observation.spec.two_person_above, observation.approval.limit)
    score = blast_radius(after, observation.spec)
    if score <= limit:
        return
    if approval.objection:
        yield Change(RolloutState.HALTED), f"the approval of stage {stage + 1} is not valid: {approval.objection}"
    elif approval.stages < stage + 1:
        words = f"stage {stage + 1} {NEEDS_APPROVAL}: blast radius {score:g} (limit {limit:g})"
        yield Change(RolloutState.PAUSED), f"{words}; {approval.expired}" if approval.expired else words


def _rehearsal(observation: RolloutObservation, *, is_promoted: bool) -> Obstacles:
    if observation.spec.drill is DrillPolicy.NO:
        return
    drilled = observation.records.newest(DrillEnded)
    if drilled is None or (_is_old(observation, drilled) and drilled.event.result is not GateResult.PASS):
        befores = [target.facts.release_before for target in observation.targets if target.facts.release_before]
        usual = max(sorted(set(befores)), key=befores.count, default="")
        yield Drill(usual), "rehearse upgrade and rollback on a warm-pool machine"
        return
    result, detail = drilled.event.result, drilled.event.detail
    if result is GateResult.FAIL:
        yield Change(RolloutState.HALTED), f"the rollback rehearsal failed: {detail}"
    elif result is not GateResult.PASS and observation.spec.drill is DrillPolicy.REQUIRED and not is_promoted:
        yield Change(RolloutState.PAUSED), f"the rollback was not rehearsed: {detail}"


def _soak(observation: RolloutObservation, judgement: Judgement, stage: int) -> Obstacles:
    # A stage of few targets may have none of its own: then those of one before it soak.
    stage = max((target.stage + 1 for target in observation.targets if target.stage < stage), default=stage)
    ends = observation.soak_ends()
    if ends and ends > observation.now:
        left = (ends - observation.now).total_seconds()
        yield Wait(max(1.0, min(OBSERVE_S, left))), f"stage {stage} soaks until {ends:%H:%M:%S} UTC"
    elif ends:
        unseen = len(observation.in_state(TargetState.SOAKING))
        yield Wait(OBSERVE_S), f"stage {stage} has soaked, but {counted(unseen, 'agent')} of it cannot be observed"
        return
    lacking = _lacking(judgement)
    if lacking:
        soaked = [end for target in observation.targets if (end := soaked_at(target, observation.spec))]
        # Some figures are only taken every few minutes.
        may_come = soaked and observation.now < max(soaked) + timedelta(seconds=observation.spec.data_s)
        yield Wait(OBSERVE_S) if may_come else Change(RolloutState.PAUSED), lacking


def _lacking(judgement: Judgement) -> str:
    """The gate that does not pass yet, and why; empty when all do."""
    if judgement.can_compare and judgement.health.result is not GateResult.PASS:
        return f"health: {judgement.health.why}"
    if judgement.probe.result is not GateResult.PASS and judgement.failures.all.touched:
        return f"probe: {judgement.probe.why}"
    return ""


def _hooks(observation: RolloutObservation, stage: int, what: str) -> Obstacles:
    promoted = observation.rollout.decisions.promoted >= stage
    for hook in observation.spec.gates.hooks:
        answer = observation.records.gate_answer(hook.name)
        if answer is None or answer.event.stage != stage or _is_old(observation, answer):
            yield AskHook(hook, stage), f"ask hook {hook.name} whether {what}"
            return
        result, detail = answer.event.result, answer.event.detail
        if result is GateResult.FAIL:
            yield Change(RolloutState.HALTED), f"hook {hook.name} failed: {detail}"
        elif result is not GateResult.PASS and not promoted:
            yield Change(RolloutState.PAUSED), f"hook {hook.name} gave no verdict: {detail}"


def _is_old(observation: RolloutObservation, answer: Recorded[Event]) -> bool:
    """Whether the state changed since: after a resume the gate is asked again."""
    changed = observation.records.newest(StateChanged)
    return changed is not None and answer.at < changed.at
