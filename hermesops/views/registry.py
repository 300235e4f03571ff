"""Shapes of the registry's database: its copies, restores and contradictions."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hermesops.views.timestamps import timestamp

if TYPE_CHECKING:
    from hermesops.agents.backup.registry_copies import CopyPreview, Listed
    from hermesops.model.check import Contradiction
    from hermesops.store.registry.maintenance.restore import Restored


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


def contradiction(row: "Contradiction") -> dict[str, object]:
    """Rows that contradict each other, and the command that is next."""
    return {"subject": row.subject, "what": row.what, "hint": row.hint}


def restored(done: "Restored", copy_preview: "CopyPreview") -> dict[str, object]:
    """A restored registry: its copy, the epoch that began, and the damaged one that was set aside."""
    set_aside = str(done.set_aside) if done.set_aside else None
    shape = {"copy": str(done.copy), "epoch": done.epoch, "set_aside": set_aside}
    return {**shape, **preview(copy_preview), "audit": done.audit.told}
