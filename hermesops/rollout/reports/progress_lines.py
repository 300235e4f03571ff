"""What an operator reads while a rollout goes on: how far it is, then who and what, in one line. Pure."""

from collections.abc import Iterable, Sequence

from hermesops.model.rollout import RolloutTarget, TargetState
from hermesops.rollout.actions import (
    AskHook,
    Change,
    Decision,
    DeployTargets,
    Drill,
    Notify,
    RollBackTargets,
    UpdateTargets,
    Wait,
)
from hermesops.rollout.observation import RolloutObservation, count_states, entered_stage, was_tried

_NAMED = 4
"""Users named in one line; the rest are counted."""

_PAST = frozenset({TargetState.FAILED, TargetState.TIMED_OUT, TargetState.ROLLED_BACK})
"""States whose names are sentences already: ``ada failed``."""


def narrate(step: Decision, observation: RolloutObservation) -> str:
    """One step of a rollout, before it is done."""
    where = step.step.targets[0] if isinstance(step.step, DeployTargets) and step.step.targets else None
    return f"{progress(_after(step, observation.targets), where)}: {_what(step, observation)}"


def progress(targets: Sequence[RolloutTarget], where: RolloutTarget | None = None) -> str:
    """How far a rollout is, as ``stage 1/3, batch 2/4, 3 of 60 healthy``; failures follow where there are any.

    Args:
        targets: All of the rollout.
        where: Whose stage and batch are told; by default those that were begun last.
    """
    counts = count_states(targets)
    parts = [*_place(targets, where), f"{counts.get(TargetState.HEALTHY, 0)} of {len(targets)} healthy"]
    failed = sum(number for state, number in counts.items() if state.has_failed)
    unseen = counts.get(TargetState.UNREACHABLE, 0)
    return ", ".join(
        [*parts, *([f"{failed} failed"] if failed else []), *([f"{unseen} unreachable"] if unseen else [])]
    )


def changes(targets: Iterable[RolloutTarget]) -> list[str]:
    """Who is in which state now and why, a line for each state and reason."""
    grouped: dict[tuple[TargetState, str], list[RolloutTarget]] = {}
    for target in targets:
        grouped.setdefault((target.state, _reason(target)), []).append(target)
    return [_state_line(state, reason, some) for (state, reason), some in grouped.items()]


def names(targets: Sequence[RolloutTarget]) -> str:
    """Whose they are, as ``ada, bob and 3 more``."""
    users = [target.facts.user for target in targets]
    if len(users) <= _NAMED:
        return ", ".join(users)
    return f"{', '.join(users[: _NAMED - 1])} and {len(users) - _NAMED + 1} more"


def _after(step: Decision, targets: tuple[RolloutTarget, ...]) -> tuple[RolloutTarget, ...]:
    """The targets as they will be once a step is done that only writes."""
    marked = {target.id: target for target in step.step.targets} if isinstance(step.step, UpdateTargets) else {}
    return tuple(marked.get(target.id, target) for target in targets)


def _place(targets: Sequence[RolloutTarget], where: RolloutTarget | None) -> list[str]:
    stages = max((target.stage for target in targets), default=-1) + 1
    stage = where.stage if where else entered_stage(targets)
    if stage < 0:
        return ["not started"]
    its = [target for target in targets if target.stage == stage]
    begun = [target.batch for target in its if was_tried(target)]
    batch = where.batch if where else max(begun, default=0)
    return [f"stage {stage + 1}/{stages}", f"batch {batch + 1}/{len({target.batch for target in its})}"]


def _what(step: Decision, observation: RolloutObservation) -> str:
    match step.step:
        case DeployTargets(targets=targets) if any(target.state.is_in_flight for target in targets):
            return f"finish the change of {names(targets)}"
        case DeployTargets(targets=targets):
            return f"deploy {observation.rollout.release} to {names(targets)}"
        case RollBackTargets(targets=targets):
            return f"roll back {names(targets)}"
        case UpdateTargets(targets=targets):
            return "; ".join(changes(targets))
        case Change(state=state):
            return f"the rollout is {state.replace('_', ' ')}: {step.why}"
        case Notify() | Drill() | AskHook() | Wait():
            return step.why


def _reason(target: RolloutTarget) -> str:
    return "its gateway does not answer" if target.progress.unwell_since and not target.detail else target.detail


def _state_line(state: TargetState, reason: str, targets: Sequence[RolloutTarget]) -> str:
    verb = "" if state in _PAST else "is " if len(targets) == 1 else "are "
    return f"{names(targets)} {verb}{state.replace('_', ' ')}{f': {reason}' if reason else ''}"
