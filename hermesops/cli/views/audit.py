"""Shapes of the audit, and of the registry's copies."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hermesops.cli.views.shapes import timestamp
from hermesops.errors import BrokenInvariantError, Hint
from hermesops.model.audit import AuditEntry, ChainFinding, ChainReport

if TYPE_CHECKING:
    from hermesops.registry.maintenance.backup import Copy


def entry(one: AuditEntry) -> dict[str, object]:
    """An entry, with the hash that chains it."""
    return {
        "id": one.id,
        "at": timestamp(one.at),
        "who": one.who,
        "action": one.action,
        "subject": one.subject,
        "why": one.why,
        "before": dict(one.before),
        "after": dict(one.after),
        "epoch": one.epoch,
        "hash": one.hash,
    }


def report(found: ChainReport, anchor: Path) -> dict[str, object]:
    """An audit log without findings."""
    return {
        "entries": found.entries,
        "epoch": found.head.epoch if found.head else None,
        "hash": found.head.hash if found.head else None,
        "anchor": str(anchor),
        "anchored_heads": found.anchors,
        "anchored_to": found.anchored_to or None,
        "lost_by_restoring": found.lost,
    }


def lines(found: ChainReport, anchor: Path) -> list[str]:
    """The same for a person."""
    if not found.entries:
        return ["the audit is empty"]
    shown = [f"{found.entries} entries are chained, up to {found.anchored_to} anchored in {anchor}"]
    if found.head and found.head.id > found.anchored_to:
        shown.append(f"entries {found.anchored_to + 1} to {found.head.id} are anchored nowhere yet")
    if found.lost:
        shown.append(f"{found.lost} that were anchored are of epochs that ended with a restored copy, which lacks them")
    return shown


def require_sound(found: ChainReport) -> None:
    """Return where the audit of a registry that was put back is what was written.

    Raises:
        BrokenInvariantError: It is not. The registry is in use nevertheless: agents wait for it, the anchor goes on to
            contradict the audit.
    """
    if found.doubt:
        raise BrokenInvariantError(f"the registry is in use, but {found.told}", hint=Hint(("audit", "verify")))


def place(finding: ChainFinding) -> str:
    """Where a finding is."""
    return f"audit entry {finding.id}" if finding.id else "the audit:"


def copy(one: "Copy") -> Mapping[str, object]:
    """A copy of the registry."""
    return {
        "taken_at": timestamp(one.taken_at),
        "reason": one.reason,
        "size_bytes": one.size_bytes,
        "file": str(one.file),
    }
