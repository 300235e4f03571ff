"""Shapes of the audit, and of the registry's copies."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from hermesops.cli.views.shapes import timestamp
from hermesops.errors import BrokenInvariantError, Hint
from hermesops.model.audit import AuditEntry, ChainReport

if TYPE_CHECKING:
    from hermesops.agents.backup.registry_copies import CopyPreview, Listed

_SHOWN = 5
"""Names of machines in a line."""


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


def copy(one: "Listed") -> Mapping[str, object]:
    """A copy of the registry; ``instances`` is null where it is damaged."""
    return {
        "taken_at": timestamp(one.copy.taken_at),
        "age_s": int(one.age.total_seconds()),
        "reason": one.copy.reason,
        "instances": one.instances,
        "size_bytes": one.copy.size_bytes,
        "file": str(one.copy.file),
    }


def preview(one: "CopyPreview") -> Mapping[str, object]:
    """What a restored copy knows; ``unknown_machines`` is null where JustAVPS did not answer."""
    return {
        "taken_at": timestamp(one.taken_at),
        "age_s": int(one.age.total_seconds()),
        "instances": one.instances,
        "unknown_machines": None if one.unknown is None else list(one.unknown),
    }


def copy_words(one: "CopyPreview") -> str:
    """A copy in a few words."""
    return f"copy of {one.taken_at:%Y-%m-%d %H:%M} UTC ({_age(one.age)} old, instances: {one.instances})"


def preview_lines(one: "CopyPreview", environment: str) -> list[str]:
    """What a copy would put back, beside what JustAVPS has."""
    if one.unknown is None:
        return [copy_words(one), f"machines that it does not know: unknown, {one.problem}"]
    if not one.unknown:
        return [copy_words(one), f"it knows every machine that JustAVPS has of environment {environment}"]
    count, shown = len(one.unknown), ", ".join(one.unknown[:_SHOWN]) + (", …" if len(one.unknown) > _SHOWN else "")
    return [
        copy_words(one),
        f"machines that JustAVPS has of environment {environment} and the copy does not know: {count} ({shown})",
    ]


def _age(age: timedelta) -> str:
    minutes = int(age.total_seconds() // 60)
    if minutes < 2 * 60:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 2 * 24 * 60 else f"{minutes // (24 * 60)} days"
