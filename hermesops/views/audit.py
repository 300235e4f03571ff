"""Shapes of the audit log and of the registry's copies."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hermesops.model.audit import AuditEntry, ChainReport
from hermesops.views.shapes import timestamp

if TYPE_CHECKING:
    from hermesops.agents.backup.registry_copies import CopyPreview, Listed


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
