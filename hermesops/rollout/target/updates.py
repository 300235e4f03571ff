"""What follows for single targets from what was seen, before anything is done: soaked, hurt, left for later. Pure."""

from dataclasses import replace

from hermesops.model.rollout import RolloutTarget, TargetState
from hermesops.rollout.gates.health import worse_than_controls
from hermesops.rollout.gates.judgement import soaked_at
from hermesops.rollout.observation import RolloutObservation
from hermesops.rollout.plan.windows import quiet_until
from hermesops.rollout.target.decision import deferral


def changed_by_health(observation: RolloutObservation) -> tuple[RolloutTarget, ...]:
    """Targets in their soak that are hurt, not answering, answering again, or through it.

    One that does not answer once is not judged: only one that did not for as long as one is patient. One that nobody
    looked at is not judged either, and does not come through its soak: no sign is no good sign.
    """
    worse = worse_than_controls(observation.watched.comparisons)
    soaking = observation.in_state(TargetState.SOAKING)
    judged = (_judged(observation, target, worse.get(target.id, "")) for target in soaking)
    return tuple(target for target, before in zip(judged, soaking, strict=True) if target != before)


def _judged(observation: RolloutObservation, target: RolloutTarget, worse: str) -> RolloutTarget:
    liveness = observation.watched.liveness_of.get(target.id)
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
    waited = observation.since(since).total_seconds()
    if waited < observation.spec.patience_s:
        return target
    return observation.marked(target, TargetState.SILENT, f"no answer for {waited:.0f} s")


def deferred_by_hour(observation: RolloutObservation, batch: tuple[RolloutTarget, ...]) -> tuple[RolloutTarget, ...]:
    """Those of a batch whose users have quiet hours, left for later."""
    return tuple(_deferred(observation, target) for target in batch if observation.is_quiet(target))


def _deferred(observation: RolloutObservation, target: RolloutTarget) -> RolloutTarget:
    until = deferral(target, observation.now, observation.spec)
    ends = quiet_until(observation.now, target.facts.quiet) if target.facts.quiet else until
    shown = min(until, ends)
    marked = observation.marked(target, TargetState.DEFERRED, f"quiet hours until {shown:%Y-%m-%d %H:%M} UTC")
    return replace(marked, progress=replace(target.progress, deferred_until=until))


def out_of_contact(observation: RolloutObservation, pending: tuple[RolloutTarget, ...]) -> tuple[RolloutTarget, ...]:
    """Those of the stage whose turn it is that gave no proper answer; they are left as they were."""
    return tuple(
        observation.marked(
            target, TargetState.UNREACHABLE, f"before anything was changed, {observation.unwell[target.id]}"
        )
        for target in pending
        if target.id in observation.unwell and target.stage <= pending[0].stage
    )


def instead_of_unanswered(
    observation: RolloutObservation,
) -> tuple[tuple[RolloutTarget, ...], tuple[RolloutTarget, ...]]:
    """Whoever changes places with those of the first stage that have not answered yet, and those, before it begins.

    Empty where all have, and where nobody of a later stage has. Before others it is not done: their places may be what
    somebody approved, and who answers late is known by then.
    """
    if observation.entered() >= 0:
        return (), ()
    pending = observation.pending()
    late = [one for one in pending if one.stage == pending[0].stage and one.id in observation.unanswered]
    ready = [one for one in pending if one.stage > pending[0].stage and one.id in observation.answered]
    swapped = list(zip(ready, late, strict=False))
    return tuple(_in_place_of(*pair) for pair in swapped), tuple(_in_place_of(*reversed(pair)) for pair in swapped)


def _in_place_of(target: RolloutTarget, other: RolloutTarget) -> RolloutTarget:
    return replace(target, stage=other.stage, batch=other.batch, position=other.position)


def instead_of_unseen(observation: RolloutObservation) -> tuple[RolloutTarget, ...]:
    """Who takes the places of a stage that nobody answered in: a larger one is not begun without anybody's word.

    Empty where somebody was tried, and where nobody is left.
    """
    entered = observation.entered()
    unseen = [one for one in observation.in_state(TargetState.UNREACHABLE) if one.stage == entered]
    if not unseen or any(one.touched_at or one.progress.on_release or one.state.is_well for one in observation.targets):
        return ()
    next_ones = [one for one in observation.pending() if one.stage > entered]
    return tuple(replace(one, stage=entered) for one in next_ones[: len(unseen)])


def outdated_at_end(observation: RolloutObservation) -> tuple[RolloutTarget, ...]:
    """Those that could not be brought, so that nobody forgets them."""
    missed = observation.in_state(TargetState.UNREACHABLE, TargetState.SILENT, TargetState.TIMED_OUT)
    return tuple(
        observation.marked(target, TargetState.OUTDATED, f"{target.state.replace('_', ' ')}: {target.detail}")
        for target in missed
    )
