"""What operators say to a rollout: pause, resume, promote, approve, abort, retry, roll back. Pure.

Each gives the row as it shall be and the event of it, for a compare-and-swap; the runner sees it within a second. What
is impossible in a state is refused with what is possible.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from hermesops.errors import RefusedError
from hermesops.model.ids import InstanceId
from hermesops.model.rollout import Progress, Rollout, RolloutState, RolloutTarget, TargetState
from hermesops.rollout.events import CommandGiven, Recorded, StateChanged

_S = RolloutState


@dataclass(frozen=True)
class OperatorCommand:
    """Somebody's word.

    Attributes:
        who: The operator.
        why: In one line.
        now: When.
    """

    who: str
    why: str
    now: datetime


@dataclass(frozen=True)
class Transition:
    """What a word makes of a rollout.

    Attributes:
        targets: Those that change with it; written before the row is.
    """

    rollout: Rollout
    event: Recorded[StateChanged | CommandGiven]
    targets: tuple[RolloutTarget, ...] = ()


def pause(rollout: Rollout, command: OperatorCommand) -> Transition:
    """Touch nobody new; those under way are brought to an end, gates are heard."""
    _refuse_unless(rollout, "paused", _S.PENDING, _S.RUNNING)
    return _to(rollout, _S.PAUSED, command, "pause")


def resume(rollout: Rollout, command: OperatorCommand) -> Transition:
    """Go on; what paused it by itself may do so again."""
    _refuse_unless(rollout, "resumed", _S.PAUSED)
    return _to(rollout, _S.RUNNING, command, "resume")


def promote(
    rollout: Rollout, targets: tuple[RolloutTarget, ...], command: OperatorCommand, *, full: bool = False
) -> Transition:
    """Let the next stage begin without soak and without what needs more data or a person; a failing gate still halts.

    After a halt it forgives what failed until now: somebody has looked, and answers for it. Those who were well and
    were put back get their turn again.

    Args:
        rollout: It.
        targets: Its targets.
        command: By whom, and why.
        full: All stages, not only the next.
    """
    _refuse_unless(rollout, "promoted", _S.RUNNING, _S.PAUSED, _S.HALTED)
    entered = max((one.stage for one in targets if one.state is not TargetState.WAITING), default=-1)
    promoted = len(rollout.spec.stages) if full else min(entered + 1, len(rollout.spec.stages))
    decisions = replace(rollout.decisions, promoted=max(rollout.decisions.promoted, promoted))
    if rollout.state is not _S.RUNNING:
        decisions = replace(decisions, forgiven_at=command.now)
    transition = _to(replace(rollout, decisions=decisions), _S.RUNNING, command, "promote", promoted=decisions.promoted)
    return replace(transition, targets=tuple(_anew(one, command.now) for one in targets if _was_well(one)))


def approve(rollout: Rollout, stage: int, command: OperatorCommand, approval: str) -> Transition:
    """Keep a second operator's approval of stages up to a number. One that was halted stays so until it is promoted.

    Args:
        rollout: It.
        stage: Number of the last approved stage, from 1.
        command: By whom: not who started it.
        approval: What was signed, with the signature.
    """
    _refuse_unless(rollout, "approved", _S.PENDING, _S.RUNNING, _S.PAUSED, _S.HALTED)
    decisions = replace(rollout.decisions, approved=stage, approval=approval)
    state = _S.RUNNING if rollout.state is _S.PAUSED else rollout.state
    return _to(replace(rollout, decisions=decisions), state, command, "approve", approved=decisions.approved)


def abort(rollout: Rollout, command: OperatorCommand) -> Transition:
    """Touch nobody new, and let those under way go back; those that run the release keep it until rolled back."""
    _refuse_unless(rollout, "aborted", _S.PENDING, _S.RUNNING, _S.PAUSED, _S.HALTED)
    return _to(rollout, _S.ABORTING, command, "abort")


def retry(rollout: Rollout, targets: tuple[RolloutTarget, ...], command: OperatorCommand) -> Transition:
    """Give those that failed or gave no answer their turn again; they come first, through the same gates."""
    _refuse_unless(rollout, "retried", _S.RUNNING, _S.PAUSED, _S.HALTED)
    missed = [one for one in targets if one.state.has_failed or one.state is TargetState.UNREACHABLE]
    failed = [one for one in missed if not one.progress.on_release]
    again = tuple(_anew(one, command.now) for one in [*failed, *filter(_was_well, targets)])
    if not again:
        raise RefusedError(f"nobody of rollout {rollout.id} failed", hint=f"hermesops rollout status {rollout.id}")
    return replace(_to(rollout, _S.RUNNING, command, "retry", again=tuple(one.id for one in again)), targets=again)


def roll_back(
    rollout: Rollout,
    targets: tuple[RolloutTarget, ...],
    command: OperatorCommand,
    *,
    lose: bool = False,
    even_revoked: bool = False,
) -> Transition:
    """Put all back that run the release because of it, never more at once than may be unavailable; no stages.

    Args:
        rollout: It.
        targets: Its targets.
        command: By whom, and why.
        lose: Also those that lose by it what was written since.
        even_revoked: Also to a release that must not run any more.
    """
    if rollout.state is _S.ROLLED_BACK:
        raise RefusedError(f"rollout {rollout.id} is rolled back", hint=f"hermesops rollout history {rollout.id}")
    free = tuple(replace(one, progress=replace(one.progress, stuck="")) for one in targets if one.progress.stuck)
    kept = tuple(replace(one, state=TargetState.SOAKING) if one.state is TargetState.KEPT else one for one in free)
    decisions = replace(rollout.decisions, may_lose=lose, even_revoked=even_revoked)
    return replace(_to(replace(rollout, decisions=decisions), _S.ROLLING_BACK, command, "roll_back"), targets=kept)


def _was_well(target: RolloutTarget) -> bool:
    return target.state is TargetState.ROLLED_BACK


def _anew(target: RolloutTarget, now: datetime) -> RolloutTarget:
    waiting = replace(target, state=TargetState.WAITING, detail=f"again; was {target.state}: {target.detail}")
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
    verbs = {
        _S.PENDING: "start it: hermesops operation list",
        _S.RUNNING: f"hermesops rollout status {rollout.id}",
        _S.PAUSED: f"hermesops rollout resume {rollout.id}",
        _S.HALTED: f"hermesops rollout promote|retry|abort {rollout.id}, or hermesops rollback --rollout {rollout.id}",
    }
    words = f"rollout {rollout.id} is {rollout.state.replace('_', ' ')} and cannot be {done}"
    raise RefusedError(words, hint=verbs.get(rollout.state, f"hermesops rollout history {rollout.id}"))
