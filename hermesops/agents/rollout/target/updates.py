"""Updates of targets that follow from an observation alone: soaked, failed, deferred, out of contact. Pure."""

from dataclasses import replace

from hermesops.agents.rollout.gates.health import worse_than_controls
from hermesops.agents.rollout.gates.judgement import soaked_at
from hermesops.agents.rollout.plan.windows import quiet_until
from hermesops.agents.rollout.steps.observation import RolloutObservation
from hermesops.agents.rollout.target.decision import LEFT_UNCHANGED, deferral
from hermesops.model.rollout.records import RolloutTarget, TargetState


def changed_by_health(observation: RolloutObservation) -> tuple[RolloutTarget, ...]:
    """Soaking targets that failed, do not answer, answer again, or have soaked.

    A target that does not answer fails only after ``unreachable_after_s``. A target that was not observed neither fails
    nor completes its soak.
    """
    worse = worse_than_controls(observation.health.comparisons)
    soaking = observation.in_state(TargetState.SOAKING)
    judged = (_judged(observation, target, worse.get(target.id, "")) for target in soaking)
    return tuple(target for target, before in zip(judged, soaking, strict=True) if target != before)


def _judged(observation: RolloutObservation, target: RolloutTarget, worse: str) -> RolloutTarget:
    liveness = observation.health.liveness_of.get(target.id)
    problem = (liveness.failed if liveness else "") or worse
    if problem:
        return observation.marked(target, TargetState.FAILED, problem)
    if liveness is None:
        return target
    if not liveness.answers:
        return _unwell(observation, target)
    if target.progress.unwell_since:
        return replace(target, progress=replace(target.progress, unwell_since=None))
    ends = soaked_at(target, observation.spec)
    return observation.marked(target, TargetState.HEALTHY) if ends and ends <= observation.now else target


def _unwell(observation: RolloutObservation, target: RolloutTarget) -> RolloutTarget:
    since = target.progress.unwell_since
    if since is None:
        return replace(target, progress=replace(target.progress, unwell_since=observation.now))
    waited = (observation.now - since).total_seconds()
    if waited < observation.spec.unreachable_after_s:
        return target
    return observation.marked(target, TargetState.SILENT, f"no answer for {waited:.0f} s")


def deferred_by_hour(observation: RolloutObservation, batch: tuple[RolloutTarget, ...]) -> tuple[RolloutTarget, ...]:
    """Defer the targets of a batch whose users have quiet hours."""
    return tuple(_deferred(observation, target) for target in batch if observation.is_quiet(target))


def _deferred(observation: RolloutObservation, target: RolloutTarget) -> RolloutTarget:
    until = deferral(target, observation.now, observation.spec)
    ends = quiet_until(observation.now, target.facts.quiet) if target.facts.quiet else until
    shown = min(until, ends)
    marked = observation.marked(target, TargetState.DEFERRED, f"quiet hours until {shown:%Y-%m-%d %H:%M} UTC")
    return replace(marked, progress=replace(target.progress, deferred_until=until))


def out_of_contact(observation: RolloutObservation, pending: tuple[RolloutTarget, ...]) -> tuple[RolloutTarget, ...]:
    """Targets of the next stage that gave no proper answer; their machines are left as they were."""
    unwell = observation.answers.unwell
    return tuple(
        observation.marked(target, TargetState.UNREACHABLE, f"{LEFT_UNCHANGED}{unwell[target.id]}")
        for target in pending
        if target.id in unwell and target.stage <= pending[0].stage
    )


def instead_of_unanswered(
    observation: RolloutObservation,
) -> tuple[tuple[RolloutTarget, ...], tuple[RolloutTarget, ...]]:
    """Targets that change places before the first stage: those that answered, and those of it that have not yet.

    Empty where all of the first stage have answered, and where none of a later stage has. Stages that an operator has
    approved keep their targets, and so do later stages: late answers are known by then.
    """
    if observation.entered() >= 0 or observation.rollout.decisions.approved:
        return (), ()
    pending, answers = observation.pending(), observation.answers
    late = [target for target in pending if target.stage == pending[0].stage and target.id in answers.unanswered]
    ready = [target for target in pending if target.stage > pending[0].stage and target.id in answers.answered]
    swapped = list(zip(ready, late, strict=False))
    return tuple(_in_place_of(*pair) for pair in swapped), tuple(_in_place_of(*reversed(pair)) for pair in swapped)


def _in_place_of(target: RolloutTarget, other: RolloutTarget) -> RolloutTarget:
    return replace(target, stage=other.stage, batch=other.batch, position=other.position)


def instead_of_unseen(observation: RolloutObservation) -> tuple[RolloutTarget, ...]:
    """Targets that take the places of a stage in which none answered, as a larger stage must not begin without any.

    Empty where a target was tried, and where none is left.
    """
    entered = observation.entered()
    unseen = [target for target in observation.in_state(TargetState.UNREACHABLE) if target.stage == entered]
    if not unseen or any(
        target.touched_at or target.progress.on_release or target.state.is_well for target in observation.targets
    ):
        return ()
    next_ones = [target for target in observation.pending() if target.stage > entered]
    return tuple(replace(target, stage=entered) for target in next_ones[: len(unseen)])


def outdated_at_end(observation: RolloutObservation) -> tuple[RolloutTarget, ...]:
    """Targets that could not be changed, marked so that ``fleet outdated`` lists them."""
    missed = observation.in_state(TargetState.UNREACHABLE, TargetState.SILENT, TargetState.TIMED_OUT)
    return tuple(
        observation.marked(target, TargetState.OUTDATED, f"{target.state.replace('_', ' ')}: {target.detail}")
        for target in missed
    )
