"""Events of a fleet, or of one instance: audit, stacks, operations, rollouts, observed changes. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from hermesops.base.narration import counted
from hermesops.model.access.audit import AuditEntry
from hermesops.model.ids import CellName
from hermesops.model.messaging.record import Receipt
from hermesops.model.operation import Operation, OperationStep
from hermesops.model.rollout.records import RolloutId, RolloutTarget, TargetState
from hermesops.model.rollout.release import ReleaseId
from hermesops.model.stack import StackHistoryEntry

_SEEN = "_seen"
"""Ends the names of actions in the audit log that were observed, not done by us."""


@dataclass(frozen=True)
class Happening:
    """One event of the fleet or of an instance.

    Attributes:
        who: Operator or process; empty for an observed event, not done through hermesops.
        what: Past tense, as ``status_changed`` or ``stack_update``.
        subject: As ``instance/<id>``, ``machine/<name>`` or ``stack/<cell>``.
        detail: In one line, without secrets.
    """

    at: datetime
    who: str
    what: str
    subject: str
    detail: str


def happenings(
    entries: Iterable[AuditEntry], runs: Mapping[CellName, Iterable[StackHistoryEntry]], *, since: datetime
) -> tuple[Happening, ...]:
    """Everything since a moment, oldest first."""
    events = [_of_entry(entry) for entry in entries if entry.at >= since]
    events += [_of_run(cell, run) for cell, history in runs.items() for run in history if run.ended >= since]
    return tuple(sorted(events, key=lambda event: event.at))


def timeline(
    entries: Iterable[AuditEntry],
    steps: Iterable[tuple[Operation, OperationStep]],
    rollouts: Iterable[tuple[RolloutId, ReleaseId, RolloutTarget]],
    restarts: Sequence[tuple[datetime, int]],
    *,
    subject: str,
    since: datetime | None,
) -> tuple[Happening, ...]:
    """Everything that happened to one instance since a moment, the newest last; ``since`` is ``None`` for all.

    Args:
        entries: Audit entries of the instance and its machine, in any order.
        steps: Steps that were begun of its operations.
        rollouts: The instance as a target of each rollout.
        restarts: systemd's counts of restarts of its gateway, oldest first.
        subject: As ``instance/<id>``.
    """
    events = [_of_entry(entry) for entry in sorted(entries, key=lambda entry: entry.id)]
    events += [_of_step(operation, step, subject) for operation, step in steps]
    events += [event for rollout, release, target in rollouts for event in _of_target(rollout, release, target)]
    events += [
        Happening(at, "", "gateway_restart_seen", subject, f"systemd's count {before} -> {count}")
        for (_, before), (at, count) in pairwise(restarts)
        if count and count != before  # a lower one was counted anew: somebody started the unit by hand
    ]
    return tuple(sorted((event for event in events if since is None or event.at >= since), key=lambda event: event.at))


def alert_changes(
    alerts: Iterable[tuple[str, str, Sequence[datetime]]], *, subject: str, now: datetime, step: timedelta
) -> tuple[Happening, ...]:
    """When alerts began and ended to fire, in no order.

    Args:
        alerts: Name and detail of each, and the times at which it was seen to fire, oldest first.
        subject: As ``instance/<id>``.
        step: Between two times that follow one another; a longer gap is an end.
    """
    events = []
    for name, detail, times in alerts:
        words = f"{name}{f', {detail}' if detail else ''}"
        for number, at in enumerate(times):
            if number == 0 or at - times[number - 1] > 1.5 * step:
                events.append(Happening(at, "", "alert_fired", subject, words))
            following = times[number + 1] if number + 1 < len(times) else now
            if following - at > 1.5 * step:
                events.append(Happening(at + step, "", "alert_ended", subject, words))
    return tuple(events)


def counted_restarts(counts: Sequence[tuple[datetime, float]], *, subject: str) -> tuple[Happening, ...]:
    """Restarts of a gateway by a counter that was read again and again, oldest first; a lower one was counted anew."""
    return tuple(
        Happening(at, "", "gateway_restart_seen", subject, f"counted {before:g} -> {count:g}")
        for (_, before), (at, count) in pairwise(counts)
        if count and count != before
    )


def message_counts(receipts: Iterable[Receipt], *, subject: str) -> tuple[Happening, ...]:
    """How many messages of each messenger came in each hour, and their present states; at the time of the last one.

    Args:
        receipts: Oldest first.
        subject: As ``instance/<id>``.
    """
    hours: dict[tuple[str, datetime], list[Receipt]] = {}
    for receipt in receipts:
        hours.setdefault((receipt.messenger, receipt.at.replace(minute=0, second=0, microsecond=0)), []).append(receipt)
    return tuple(
        Happening(of_hour[-1].at, "", "messages_received", subject, f"{messenger}: {_states(of_hour)}")
        for (messenger, _), of_hour in hours.items()
    )


def _states(receipts: Sequence[Receipt]) -> str:
    counts = Counter(receipt.state for receipt in receipts)
    return ", ".join(
        [counted(len(receipts), "message"), *(f"{count} {state}" for state, count in sorted(counts.items()))]
    )


def _of_step(operation: Operation, step: OperationStep, subject: str) -> Happening:
    problem = f", stopped: {step.problem}" if step.problem else ""
    return Happening(step.at, step.holder, "operation_step", subject, f"{operation.kind}: {step.step}{problem}")


def _of_target(rollout: RolloutId, release: ReleaseId, target: RolloutTarget) -> list[Happening]:
    """When a rollout touched and confirmed a target, and where it stands with it."""
    subject, to = f"rollout/{rollout}", f"release {release}"
    moments = [(target.touched_at, "rollout_began", ""), (target.progress.confirmed_at, "rollout_confirmed", "")]
    if target.state is not TargetState.WAITING:
        moments.append((target.updated_at, f"rollout_{target.state}", target.detail))
    return [
        Happening(at, "", what, subject, ", ".join(filter(None, (to, detail)))) for at, what, detail in moments if at
    ]


def _of_entry(entry: AuditEntry) -> Happening:
    was_seen = entry.action.endswith(_SEEN)
    pairs = {name: (entry.before.get(name), entry.after.get(name)) for name in {**entry.before, **entry.after}}
    changes = [_change(name, *pair) for name, pair in pairs.items() if pair != (None, None)]
    detail = ", ".join([*changes, *([entry.why] if entry.why else [])])
    return Happening(entry.at, "" if was_seen else entry.who, entry.action, entry.subject, detail)


def _change(name: str, before: object, after: object) -> str:
    if before is None:
        return f"{name} {_words(after)}"
    return f"{name} {_words(before)} -> {_words(after)}" if after is not None else f"{name} {_words(before)} before"


def _words(value: object) -> str:
    """Format a value of an entry for people: a runbook's step with its outcome, a diagnosis by its meaning."""
    match value:
        case {"step": step, "outcome": outcome}:
            return f"{step} {outcome}"
        case {"meaning": meaning}:
            return str(meaning)
        case Mapping():
            return "; ".join(f"{name} {_words(item)}" for name, item in value.items()) or "none"
        case list() | tuple():
            return "; ".join(map(_words, value)) or "none"
    return str(value) or "none"


def _of_run(cell: CellName, run: StackHistoryEntry) -> Happening:
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(run.changes.items()) if kind != "same")
    detail = f"{counts or 'no changes'}{', failed' if run.failed else ''}"
    return Happening(run.ended, "pulumi", f"stack_{run.kind}", f"stack/{cell}", detail)
