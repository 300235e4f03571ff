"""Shapes of backups and snapshots; a state is shown as counts and digests, never its content."""

from typing import TYPE_CHECKING

from hermesops.model.fleet.instance import InstanceStatus
from hermesops.views.timestamps import Age, timestamp

if TYPE_CHECKING:
    from datetime import datetime

    from hermesops.model.fleet.instance import Instance
    from hermesops.model.recovery.backup import Backup
    from hermesops.model.recovery.state import State
    from hermesops.vendor.justavps.wire import Image


def backup(row: "Backup", user: str) -> dict[str, object]:
    """A backup; its state is shown as counts and digests, never its content."""
    return {
        "user": user,
        "instance_id": row.instance_id,
        "backup": row.id,
        "at": timestamp(row.at),
        "why": row.why,
        "bytes": row.bytes,
        "added": row.added,
        "state": row.state.to_json(),
        "proved": row.is_proved,
        "checked_at": timestamp(row.checked_at),
        "problem": row.checked,
    }


def snapshot(image: "Image", instance: "Instance") -> dict[str, object]:
    """The vendor's image of an instance's machine."""
    return {
        "user": instance.title,
        "instance_id": instance.id,
        "snapshot": image.id,
        "name": image.name,
        "status": "ready" if image.bootable else "creating" if image.status == "ready" else image.status.value,
        "disk_gb": image.disk_size_gb,
        "created_at": timestamp(image.created_at),
    }


def comparison(row: "Backup", user: str, now: "State") -> dict[str, object]:
    """The JSON object of a backup compared with the present state: the differences, and counts and digests of both."""
    differences = list(row.state.differences(now))
    return {
        "user": user,
        "instance_id": row.instance_id,
        "backup": row.id,
        "at": timestamp(row.at),
        "same": not differences,
        "differences": differences,
        "copied": row.state.to_json(),
        "now": now.to_json(),
    }


def age(instance: "Instance", newest: "datetime | None", now: "datetime") -> dict[str, object]:
    """Unsaved changes of an instance: lost with its machine now. A suspended one has none since its last backup."""
    counts = instance.status is InstanceStatus.RUNNING
    seconds = int((now - (newest or instance.created_at)).total_seconds())
    return {
        "user": instance.title,
        "instance_id": instance.id,
        "status": instance.status.value,
        "newest": timestamp(newest),
        "age_s": seconds,
        "counts": counts,
        "age": str(Age(seconds)) if counts else None,
    }


def created(user: str, outcome: str, newest: "Backup | None") -> dict[str, object]:
    """A backup that an operator began; ``made`` is null while nobody waits for it."""
    return {"user": user, "outcome": outcome, "made": backup(newest, user) if newest else None}


def restored(user: str, backup_id: str, outcome: str) -> dict[str, object]:
    """An agent that was put back to a backup."""
    return {"user": user, "backup": backup_id, "outcome": outcome}
