"""Operators' commands to a rollout: pause, resume, promote, approve, abort, retry, roll back. Pure.

Each returns the new row and its event, for a compare-and-swap; the runner reads it within a second. A command that the
state does not allow is refused, and the error names one that it allows.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from hermesops.agents.rollout.ports import Records
from hermesops.agents.rollout.records.events import CommandGiven, Recorded, StateChanged
from hermesops.errors import Hint, RefusedError
from hermesops.model.ids import InstanceId
from hermesops.model.rollout.records import Progress, Rollout, RolloutState, RolloutTarget, TargetState

_PENDING, _RUNNING = RolloutState.PENDING, RolloutState.RUNNING
_PAUSED, _HALTED = RolloutState.PAUSED, RolloutState.HALTED


@dataclass(frozen=True)
class OperatorCommand:
    """The author, reason (one line) and time of a command."""

    who: str
    why: str
    now: datetime


@dataclass(frozen=True)
class Transition:
    """The new rows of a rollout after a command.

    Attributes:
        targets: Those that change with it; written before the row is.
    """

    rollout: Rollout
    event: Recorded[StateChanged | CommandGiven]
    targets: tuple[RolloutTarget, ...] = ()


def pause(records: Records, command: OperatorCommand) -> Transition:
    """Begin no more targets; those in progress are finished, and gates still count."""
    _refuse_unless(records.rollout, "paused", _PENDING, _RUNNING)
    return _to(records.rollout, RolloutState.PAUSED, command, "pause")


def resume(records: Records, command: OperatorCommand, *, despite_alerts: bool = False) -> Transition:
    """Continue; a gate that paused the rollout may pause it again.

    Args:
        despite_alerts: Open alerts do not hold it from now on, for the command's reason. As at its start, that adds to
            the blast radius: a second operator may have to approve stages that needed none.
    """
    rollout = records.rollout
    if not despite_alerts:
        _refuse_unless(rollout, "resumed", _PAUSED)
        return _to(rollout, RolloutState.RUNNING, command, "resume")
    _refuse_unless(rollout, "resumed", _PENDING, _RUNNING, _PAUSED)
    decided = replace(rollout, decisions=replace(rollout.decisions, despite_alerts=command.why))
    state = RolloutState.RUNNING if rollout.state is _PAUSED else rollout.state
    return _to(decided, state, command, "resume")


def promote(records: Records, command: OperatorCommand, *, full: bool = False) -> Transition:
    """Begin the next stage without soak, more data or a person; a failing gate still halts.

    After a halt it forgives the failures so far: the operator has checked them, and answers for it. Targets that were
    well and were rolled back get another try.
    """
    rollout, targets = records.rollout, records.targets
    _refuse_unless(rollout, "promoted", _RUNNING, _PAUSED, _HALTED)
    entered = max((target.stage for target in targets if target.state is not TargetState.WAITING), default=-1)
    promoted = len(rollout.spec.stages) if full else min(entered + 1, len(rollout.spec.stages))
    decisions = replace(rollout.decisions, promoted=max(rollout.decisions.promoted, promoted))
    if rollout.state is not RolloutState.RUNNING:
        decisions = replace(decisions, forgiven_at=command.now)
    promoted_rollout = replace(rollout, decisions=decisions)
    transition = _to(promoted_rollout, RolloutState.RUNNING, command, "promote", promoted=decisions.promoted)
    return replace(transition, targets=tuple(_again(target, command.now) for target in targets if _was_well(target)))


def approve(rollout: Rollout, stage: int, command: OperatorCommand, approval: str) -> Transition:
    """Store a second operator's approval of stages up to a number. A halted rollout stays halted until it is promoted.

    Args:
        stage: Number of the last approved stage, from 1.
        command: By another operator than the one who started the rollout.
        approval: The signed content and its signature.
    """
    _refuse_unless(rollout, "approved", _PENDING, _RUNNING, _PAUSED, _HALTED)
    decisions = replace(rollout.decisions, approved=stage, approval=approval)
    state = RolloutState.RUNNING if rollout.state is RolloutState.PAUSED else rollout.state
    return _to(replace(rollout, decisions=decisions), state, command, "approve", approved=stage)


def abort(records: Records, command: OperatorCommand) -> Transition:
    """Begin no more targets and let those in progress go back; those on the release keep it until it is rolled back."""
    _refuse_unless(records.rollout, "aborted", _PENDING, _RUNNING, _PAUSED, _HALTED)
    return _to(records.rollout, RolloutState.ABORTING, command, "abort")


def retry(records: Records, command: OperatorCommand) -> Transition:
    """Give targets that failed or were unreachable another try, before the others and through the same gates."""
    rollout, targets = records.rollout, records.targets
    _refuse_unless(rollout, "retried", _RUNNING, _PAUSED, _HALTED)
    missed = [target for target in targets if target.state.has_failed or target.state is TargetState.UNREACHABLE]
    failed = [target for target in missed if not target.progress.on_release]
    again = tuple(_again(target, command.now) for target in [*failed, *filter(_was_well, targets)])
    if not again:
        raise RefusedError(f"no target of rollout {rollout.id} failed", hint=Hint(("rollout", "status", rollout.id)))
    ids = tuple(target.id for target in again)
    return replace(_to(rollout, RolloutState.RUNNING, command, "retry", again=ids), targets=again)


def roll_back(
    records: Records, command: OperatorCommand, *, lose: bool = False, even_revoked: bool = False
) -> Transition:
    """Roll back all targets that run the release because of it, without stages, as many at once as may be unavailable.

    Args:
        lose: Also targets that lose rows written since.
        even_revoked: Also to a release that was revoked.
    """
    rollout, targets = records.rollout, records.targets
    if rollout.state is RolloutState.ROLLED_BACK:
        raise RefusedError(f"rollout {rollout.id} is rolled back", hint=Hint(("rollout", "history", rollout.id)))
    free = tuple(
        replace(target, progress=replace(target.progress, stuck="")) for target in targets if target.progress.stuck
    )
    soaking = tuple(
        replace(target, state=TargetState.SOAKING) if target.state is TargetState.KEPT else target for target in free
    )
    decisions = replace(rollout.decisions, may_lose=lose, even_revoked=even_revoked)
    transition = _to(replace(rollout, decisions=decisions), RolloutState.ROLLING_BACK, command, "roll_back")
    return replace(transition, targets=soaking)


def _was_well(target: RolloutTarget) -> bool:
    return target.state is TargetState.ROLLED_BACK


def _again(target: RolloutTarget, now: datetime) -> RolloutTarget:
    waiting = replace(
        target, state=TargetState.WAITING, detail=f"tried again; last time {target.state}: {target.detail}"
    )
    return replace(waiting, touched_at=None, updated_at=now, progress=Progress())


def _to(
    rollout: Rollout,
    state: RolloutState,
    command: OperatorCommand,
    verb: str,
    *,
    promoted: int = 0,
    approved: int = 0,
    again: tuple[InstanceId, ...] = (),
) -> Transition:
    event: StateChanged | CommandGiven
    if state is rollout.state:
        event = CommandGiven(state, command.why, command.who, verb, promoted, approved, again)
    else:
        event = StateChanged(rollout.state, state, command.why, command.who, verb, promoted, approved, again)
    changed = replace(rollout, state=state, reason=command.why, who=command.who)
    return Transition(changed, Recorded(command.now, event))


def _refuse_unless(rollout: Rollout, done: str, *states: RolloutState) -> None:
    if rollout.state in states:
        return
    hints = {
        _PENDING: Hint("start it:", ("operation", "list")),
        _RUNNING: Hint(("rollout", "status", rollout.id)),
        _PAUSED: Hint(("rollout", "resume", rollout.id)),
        _HALTED: Hint(
            ("rollout", "retry", rollout.id), ", promote or abort; or", ("rollback", "--rollout", rollout.id)
        ),
    }
    words = f"rollout {rollout.id} is {rollout.state.replace('_', ' ')} and cannot be {done}"
    raise RefusedError(words, hint=hints.get(rollout.state, Hint(("rollout", "history", rollout.id))))
