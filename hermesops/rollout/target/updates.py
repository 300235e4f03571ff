"""What follows for single targets from what was seen, before anything is done: soaked, hurt, left for later. Pure."""

from dataclasses import replace

from hermesops.model.rollout import RolloutTarget, TargetState
from hermesops.rollout.gates.health import hurt
from hermesops.rollout.gates.judgement import soaked_at
from hermesops.rollout.observation import Sight
from hermesops.rollout.plan.windows import quiet_until
from hermesops.rollout.target.decision import deferral


def changed_by_health(sight: Sight) -> tuple[RolloutTarget, ...]:
    """Targets in their soak that are hurt, not answering, answering again, or through it.

    One that does not answer once is not judged: only one that did not for as long as one is patient. One that nobody
    looked at is not judged either, and does not come through its soak: no sign is no good sign.
    """
    worse = hurt(sight.watched.comparisons)
    soaking = sight.in_state(TargetState.SOAKING)
    judged = (_judged(sight, target, worse.get(target.id, "")) for target in soaking)
    return tuple(target for target, before in zip(judged, soaking, strict=True) if target != before)


def _judged(sight: Sight, target: RolloutTarget, worse: str) -> RolloutTarget:
    pulse = sight.watched.pulses.get(target.id)
    problem = (pulse.failed if pulse else "") or worse
    if problem:
        return sight.marked(target, TargetState.FAILED, problem)
    if pulse is None:
        return target
    if not pulse.answers:
        return _unwell(sight, target)
    if target.progress.unwell_since:
        return replace(target, progress=replace(target.progress, unwell_since=None))
    ends = soaked_at(target, sight.spec)
    return sight.marked(target, TargetState.HEALTHY) if ends and ends <= sight.now else target


def _unwell(sight: Sight, target: RolloutTarget) -> RolloutTarget:
    since = target.progress.unwell_since
    if since is None:
        return replace(target, progress=replace(target.progress, unwell_since=sight.now))
    waited = sight.since(since).total_seconds()
    if waited < sight.spec.patience_s:
        return target
    return sight.marked(target, TargetState.SILENT, f"no answer for {waited:.0f} s")


def deferred_by_hour(sight: Sight, batch: tuple[RolloutTarget, ...]) -> tuple[RolloutTarget, ...]:
    """Those of a batch whose users have quiet hours, left for later."""
    return tuple(_deferred(sight, target) for target in batch if sight.is_quiet(target))


def _deferred(sight: Sight, target: RolloutTarget) -> RolloutTarget:
    until = deferral(target, sight.now, sight.spec)
    ends = quiet_until(sight.now, target.facts.quiet) if target.facts.quiet else until
    shown = min(until, ends)
    marked = sight.marked(target, TargetState.DEFERRED, f"quiet hours until {shown:%Y-%m-%d %H:%M} UTC")
    return replace(marked, progress=replace(target.progress, deferred_until=until))


def out_of_sight(sight: Sight, pending: tuple[RolloutTarget, ...]) -> tuple[RolloutTarget, ...]:
    """Those of the stage whose turn it is that gave no proper answer; they are left as they were."""
    return tuple(
        sight.marked(target, TargetState.UNREACHABLE, f"before anything was changed, {sight.unwell[target.id]}")
        for target in pending
        if target.id in sight.unwell and target.stage <= pending[0].stage
    )


def instead_of_unanswered(sight: Sight) -> tuple[tuple[RolloutTarget, ...], tuple[RolloutTarget, ...]]:
    """Whoever changes places with those of the first stage that have not answered yet, and those, before it begins.

    Empty where all have, and where nobody of a later stage has. Before others it is not done: their places may be what
    somebody approved, and who answers late is known by then.
    """
    if sight.entered() >= 0:
        return (), ()
    pending = sight.pending()
    late = [one for one in pending if one.stage == pending[0].stage and one.id in sight.unanswered]
    ready = [one for one in pending if one.stage > pending[0].stage and one.id in sight.answered]
    swapped = list(zip(ready, late, strict=False))
    return tuple(_in_place_of(*pair) for pair in swapped), tuple(_in_place_of(*reversed(pair)) for pair in swapped)


def _in_place_of(target: RolloutTarget, other: RolloutTarget) -> RolloutTarget:
    return replace(target, stage=other.stage, batch=other.batch, position=other.position)


def instead_of_unseen(sight: Sight) -> tuple[RolloutTarget, ...]:
    """Who takes the places of a stage that nobody answered in: a larger one is not begun without anybody's word.

    Empty where somebody was tried, and where nobody is left.
    """
    entered = sight.entered()
    unseen = [one for one in sight.in_state(TargetState.UNREACHABLE) if one.stage == entered]
    if not unseen or any(one.touched_at or one.progress.on_release or one.state.is_well for one in sight.targets):
        return ()
    next_ones = [one for one in sight.pending() if one.stage > entered]
    return tuple(replace(one, stage=entered) for one in next_ones[: len(unseen)])


def owed_at_end(sight: Sight) -> tuple[RolloutTarget, ...]:
    """Those that could not be brought, so that nobody forgets them."""
    missed = sight.in_state(TargetState.UNREACHABLE, TargetState.SILENT, TargetState.TIMED_OUT)
    return tuple(
        sight.marked(target, TargetState.OWED, f"{target.state.replace('_', ' ')}: {target.detail}")
        for target in missed
    )
