"""Shapes of the audit log: its entries and its verification."""

from pathlib import Path

from hermesops.model.access.audit import AuditEntry, ChainReport
from hermesops.views.timestamps import timestamp


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
