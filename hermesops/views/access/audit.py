"""Shapes of the audit log and of the registry's copies."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hermesops.model.access.audit import AuditEntry, ChainReport
from hermesops.views.timestamps import timestamp

if TYPE_CHECKING:
    from hermesops.agents.backup.registry_copies import CopyPreview, Listed


def entry(row: AuditEntry) -> dict[str, object]:
    """An entry, with the hash that chains it."""
    return {
        "id": row.id,
        "at": timestamp(row.at),
        "who": row.who,
        "action": row.action,
        "subject": row.subject,
        "why": row.why,
        "before": dict(row.before),
        "after": dict(row.after),
        "epoch": row.epoch,
        "hash": row.hash,
    }


def report(chain: ChainReport, anchor: Path) -> dict[str, object]:
    """The JSON object of a verified audit log: entries, head, anchor and anchored entries."""
    return {
        "entries": chain.entries,
        "epoch": chain.head.epoch if chain.head else None,
        "hash": chain.head.hash if chain.head else None,
        "anchor": str(anchor),
        "anchored_heads": chain.anchors,
        "anchored_to": chain.anchored_to or None,
        "lost_by_restoring": chain.lost,
    }


def copy(listed: "Listed") -> Mapping[str, object]:
    """A copy of the registry; ``instances`` is null where it is damaged."""
    return {
        "taken_at": timestamp(listed.copy.taken_at),
        "age_s": int(listed.age.total_seconds()),
        "reason": listed.copy.reason,
        "instances": listed.instances,
        "size_bytes": listed.copy.size_bytes,
        "file": str(listed.copy.file),
    }


def preview(copy_preview: "CopyPreview") -> Mapping[str, object]:
    """A copy before its restore; ``unknown_machines`` is null where JustAVPS did not answer."""
    return {
        "taken_at": timestamp(copy_preview.taken_at),
        "age_s": int(copy_preview.age.total_seconds()),
        "instances": copy_preview.instances,
        "unknown_machines": None if copy_preview.unknown is None else list(copy_preview.unknown),
    }
