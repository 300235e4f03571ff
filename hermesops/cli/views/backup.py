"""Table rows of backups, and the ages of the newest ones."""

from datetime import datetime
from typing import TYPE_CHECKING

from hermesops.views.agents import backups
from hermesops.views.timestamps import Age

if TYPE_CHECKING:
    from hermesops.model.fleet.instance import Instance
    from hermesops.model.recovery.backup import Backup


def line(row: "Backup", user: str) -> dict[str, object]:
    """The table row of a backup: as ``backup``, with a short id, its contents and its last check."""
    shown = backups.backup(row, user)
    proof = "proved" if row.is_proved else row.checked or "not restored yet"
    return {**shown, "backup": row.id[:8], "holds": str(row.state), "check": proof}


def age_line(instance: "Instance", newest: datetime | None, now: datetime) -> dict[str, object]:
    """The row of ``age`` for people: its age is sorted by its seconds."""
    row = backups.age(instance, newest, now)
    return {**row, "age": Age(int(str(row["age_s"]))) if row["counts"] else None}
