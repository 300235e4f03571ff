"""When an instance is backed up: once a day, at a minute of its own, so that a thousand do not come at once. Pure."""

import hashlib
from datetime import UTC, datetime, timedelta

from hermesops.model.backup import RPO
from hermesops.model.ids import InstanceId

_MINUTES = 24 * 60


def minute_of(instance_id: InstanceId) -> int:
    """The minute of the day, in UTC, at which an instance's turn comes."""
    return int.from_bytes(hashlib.sha256(instance_id.encode()).digest()[:8]) % _MINUTES


def is_due(instance_id: InstanceId, since: datetime, now: datetime) -> bool:
    """Whether a backup should be made now.

    Args:
        instance_id: Whose.
        since: When the newest was made; when the instance was, while there is none.
        now: The time.
    """
    turn = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    turn += timedelta(minutes=minute_of(instance_id))
    if turn > now:
        turn -= timedelta(days=1)
    return since < turn or now - since >= RPO
