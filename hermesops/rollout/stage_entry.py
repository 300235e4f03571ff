"""What must hold before a further stage is entered. Pure.

The failure gate needs no verdict here: it is sequential, and more targets are how it learns. All others must pass. An
operator who says ``promote`` answers for those that need more data or a person; nothing lets a stage pass that fails.
"""

from collections.abc import Iterator
from datetime import timedelta

from hermesops.model.rollout import GateResult, RolloutState, RolloutTarget, TargetState
from hermesops.model.rollout_spec import DrillPolicy
from hermesops.rollout.actions import AskHook, Change, Decision, Drill, Step, Wait
from hermesops.rollout.events import DrillEnded, Event, Recorded, StateChanged
from hermesops.rollout.gates.judgement import Judgement, evidence_of, soaked_at
from hermesops.rollout.observation import RolloutObservation
from hermesops.rollout.plan.blast_radius import blast_radius

LOOK_S = 10.0
"""Seconds between two looks at targets that soak."""

_DRILLED_STAGE = 1
"""Before the second stage the way back is tried."""


def refuse_stage_entry(observation: RolloutObservation, judgement: Judgement, stage: int) -> Decision | None:
    """What comes before a stage; ``None`` when it may begin.

    Args:
        observation: Everything.
        judgement: What the gates say.
        stage: Number of the stage to be entered, from 0.
    """
    evidence = evidence_of(judgement)
    for step, why in _obstacles(observation, judgement, stage):
        return Decision(step, why, evidence)
    return None


def objections(observation: RolloutObservation, judgement: Judgement) -> Decision | None:
    """What the gates that others keep say before a rollout ends; ``None`` when they are content.

    They are asked as at the door of a stage: else nobody would ask them about the last one.
    """
    for step, why in _of_hooks(observation, len(observation.spec.stages), "all is well"):
        return Decision(step, why, evidence_of(judgement))
    return None


def _obstacles(observation: RolloutObservation, judgement: Judgement, stage: int) -> Iterator[tuple[Step, str]]:
    decisions = observation.rollout.decisions
    yield from _of_two_people(observation, stage)
    if stage == _DRILLED_STAGE:
        yield from _of_the_drill(observation, promoted=decisions.promoted >= stage)
    if stage > 0 and decisions.promoted < stage:
        yield from _of_soak(observation, judgement, stage)
    if stage > 0:
        yield from _of_hooks(observation, stage, f"stage {stage + 1} may begin")
    if stage + 1 in observation.spec.gates.manual_before and decisions.promoted < stage:
        yield Change(RolloutState.PAUSED), f"stage {stage + 1} waits for an operator: hermesops rollout promote"


def _of_soak(observation: RolloutObservation, judgement: Judgement, stage: int) -> Iterator[tuple[Step, str]]:
    ends = observation.soak_ends()
    if ends and ends > observation.now:
        left = (ends - observation.now).total_seconds()
        yield Wait(max(1.0, min(LOOK_S, left))), f"stage {stage} soaks until {ends:%H:%M:%S} UTC"
    elif ends:
        unseen = len(observation.in_state(TargetState.SOAKING))
        yield Wait(LOOK_S), f"stage {stage} has soaked, but {unseen} of it cannot be observed"
        return
    lacking = _lacking(judgement)
    if lacking:
        step = Wait(LOOK_S) if _may_still_come(observation) else Change(RolloutState.PAUSED)
        yield step, lacking


def _lacking(judgement: Judgement) -> str:
    """Which gate does not pass yet, and why; empty when all do."""
    if judgement.can_compare and judgement.health.result is not GateResult.PASS:
        return f"health is {judgement.health.result.replace('_', ' ')}: {judgement.health.why}"
    if judgement.probe.result is not GateResult.PASS and judgement.failures.all.touched:
        return f"too few were exercised: {judgement.probe.why}"
    return ""


def _may_still_come(observation: RolloutObservation) -> bool:
    """Whether figures are waited for: some are only taken every few minutes."""
    ended = [end for one in observation.targets if (end := soaked_at(one, observation.spec))]
    return bool(ended) and observation.now < max(ended) + timedelta(seconds=observation.spec.data_s)


def _of_the_drill(observation: RolloutObservation, *, promoted: bool) -> Iterator[tuple[Step, str]]:
    if observation.spec.drill is DrillPolicy.NO:
        return
    drilled = observation.records.newest(DrillEnded)
    if drilled is None or (_is_old(observation, drilled) and drilled.event.result is not GateResult.PASS):
        yield Drill(_usual_release(observation.targets)), "rehearse the rollback on a warm-pool machine first"
        return
    result, detail = drilled.event.result, drilled.event.detail
    if result is GateResult.FAIL:
        yield Change(RolloutState.HALTED), f"the rollback rehearsal failed: {detail}"
    elif result is not GateResult.PASS and observation.spec.drill is DrillPolicy.REQUIRED and not promoted:
        yield Change(RolloutState.PAUSED), f"the rollback was not rehearsed ({result.replace('_', ' ')}): {detail}"


def _of_hooks(observation: RolloutObservation, stage: int, what: str) -> Iterator[tuple[Step, str]]:
    promoted = observation.rollout.decisions.promoted >= stage
    for hook in observation.spec.gates.hooks:
        answer = observation.records.gate_answer(hook.name)
        if answer is None or answer.event.stage != stage or _is_old(observation, answer):
            yield AskHook(hook, stage), f"ask gate {hook.name} whether {what}"
            return
        result, detail = answer.event.result, answer.event.detail
        if result is GateResult.FAIL:
            yield Change(RolloutState.HALTED), f"gate {hook.name} fails: {detail}"
        elif result is not GateResult.PASS and not promoted:
            yield Change(RolloutState.PAUSED), f"gate {hook.name} is {result.replace('_', ' ')}: {detail}"


def _is_old(observation: RolloutObservation, answer: Recorded[Event]) -> bool:
    """Whether the state changed since: an operator who resumes a rollout wants the gate asked again."""
    changed = observation.records.newest(StateChanged)
    return changed is not None and answer.at < changed.at


def _of_two_people(observation: RolloutObservation, stage: int) -> Iterator[tuple[Step, str]]:
    after = [target for target in observation.targets if target.stage <= stage]
    approval, limit = observation.approval, min(observation.spec.two_person_above, observation.approval.limit)
    score = blast_radius(after, observation.spec)
    if score <= limit:
        return
    if approval.objection:
        yield Change(RolloutState.HALTED), f"the approval of stage {stage + 1} does not count: {approval.objection}"
    elif approval.stages < stage + 1:
        words = f"stage {stage + 1} has a blast radius of {score:g}, above {limit:g}: a second operator must approve it"
        yield Change(RolloutState.PAUSED), f"{words}; {approval.expired}" if approval.expired else words


def altered(observation: RolloutObservation, judgement: Judgement, stage: int) -> Decision | None:
    """What stops a stage in its middle: its approval is not what was signed any more; ``None`` for nothing."""
    if not observation.approval.objection:
        return None
    for step, why in _of_two_people(observation, stage):
        return Decision(step, why, evidence_of(judgement))
    return None


def _usual_release(targets: tuple[RolloutTarget, ...]) -> str:
    """What most of the targets ran before."""
    befores = [target.facts.release_before for target in targets if target.facts.release_before]
    return max(sorted(set(befores)), key=befores.count, default="")
