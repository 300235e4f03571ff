"""When a backup is restored for proof, and whose: some week's oldest proof. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from hermesops.model.ids import InstanceId
from hermesops.model.operation import Operation


def is_due(drills: Sequence[Operation], first_backup_at: datetime | None, every: timedelta, now: datetime) -> bool:
    """Whether the next drill should begin.

    Args:
        drills: Those of the past, and those under way.
        first_backup_at: When the oldest backup that is kept was made.
        every: From the end of one to the begin of the next.
        now: The time.
    """
    if first_backup_at is None or any(not drill.status.has_ended for drill in drills):
        return False
    last = max((drill.updated_at for drill in drills), default=first_backup_at)
    return now - last >= every


def next_of(checks: Mapping[InstanceId, datetime | None]) -> InstanceId | None:
    """The instance whose last proof is oldest, one that was never proved first; ``None`` when none has a backup.

    Args:
        checks: When a backup of each was last restored and compared.
    """
    never = sorted(id_ for id_, at in checks.items() if at is None)
    if never:
        return never[0]
    return min(checks, key=lambda id_: (checks[id_], id_), default=None)
