"""What happened to a fleet since a moment: audit log, runs of stacks, and changes that were observed. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from hermesops.model.audit import AuditEntry
from hermesops.model.ids import CellName
from hermesops.model.stack import StackHistoryEntry

_SEEN = "_seen"
"""Ends the names of actions in the audit log that were observed, not done by us."""


@dataclass(frozen=True)
class Happening:
    """One thing that happened.

    Attributes:
        who: Empty for what was only observed, not done through hermesops.
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
    found = [_of_entry(entry) for entry in entries if entry.at >= since]
    found += [_of_run(cell, run) for cell, history in runs.items() for run in history if run.ended >= since]
    return tuple(sorted(found, key=lambda one: one.at))


def _of_entry(entry: AuditEntry) -> Happening:
    was_seen = entry.action.endswith(_SEEN)
    pairs = {name: (entry.before.get(name), entry.after.get(name)) for name in {**entry.before, **entry.after}}
    changes = [_change(name, *pair) for name, pair in pairs.items() if pair != (None, None)]
    detail = ", ".join([*changes, *([entry.why] if entry.why else [])])
    return Happening(entry.at, "" if was_seen else entry.who, entry.action, entry.subject, detail)


def _change(name: str, before: object, after: object) -> str:
    if before is None:
        return f"{name} {after}"
    return f"{name} {before} -> {after}" if after is not None else f"{name} {before} before"


def _of_run(cell: CellName, run: StackHistoryEntry) -> Happening:
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(run.changes.items()) if kind != "same")
    detail = f"{counts or 'no changes'}{', failed' if run.failed else ''}"
    return Happening(run.ended, "pulumi", f"stack_{run.kind}", f"stack/{cell}", detail)
