"""The time as rows and answers carry it."""

from datetime import UTC, datetime, timedelta


def now(*, plus_s: float = 0.0) -> str:
    """ISO 8601 in UTC with microseconds, so that text order is time order."""
    return (datetime.now(UTC) + timedelta(seconds=plus_s)).isoformat(timespec="microseconds").replace("+00:00", "Z")
