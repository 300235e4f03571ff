"""When an instance is backed up, and when which backup is restored for proof. Pure.

A backup is made once a day, at a minute of the instance's own, so that a thousand do not start at once.
"""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from hermesops.model.ids import InstanceId
from hermesops.model.operation import Operation
from hermesops.model.recovery.backup import RPO

_MINUTES = 24 * 60


def minute_of(instance_id: InstanceId) -> int:
    """The minute of the day, in UTC, at which an instance's turn comes."""
    return int.from_bytes(hashlib.sha256(instance_id.encode()).digest()[:8]) % _MINUTES


def is_due(instance_id: InstanceId, since: datetime, now: datetime) -> bool:
    """Whether a backup should be made now.

    ``since`` is when the newest was made; when the instance was, while there is none.
    """
    turn = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    turn += timedelta(minutes=minute_of(instance_id))
    if turn > now:
        turn -= timedelta(days=1)
    return since < turn or now - since >= RPO


def drill_is_due(
    drills: Sequence[Operation], first_backup_at: datetime | None, every: timedelta, now: datetime
) -> bool:
    """Whether the next restore drill should begin.

    ``drills`` are all, ended or running; ``every`` is from the end of one to the start of the next.
    """
    if first_backup_at is None or any(not drill.status.has_ended for drill in drills):
        return False
    last = max((drill.updated_at for drill in drills), default=first_backup_at)
    return now - last >= every


def drill_of(checks: Mapping[InstanceId, datetime | None]) -> InstanceId | None:
    """The instance whose last proof is oldest; one never proved comes first; ``None`` when none has a backup."""
    never = sorted(id_ for id_, at in checks.items() if at is None)
    if never:
        return never[0]
    return min(checks, key=lambda id_: (checks[id_], id_), default=None)
