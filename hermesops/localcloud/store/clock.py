"""The time as rows and answers carry it."""

from datetime import UTC, datetime, timedelta

EPOCH = "2026-01-01T00:00:00.000000Z"
"""When what every world has from its beginning is said to have been made."""


def now(*, plus_s: float = 0.0) -> str:
    """ISO 8601 in UTC with microseconds, so that text order is time order."""
    return (datetime.now(UTC) + timedelta(seconds=plus_s)).isoformat(timespec="microseconds").replace("+00:00", "Z")


def seconds_until(moment: str) -> float:
    """Seconds from now to a moment that ``now`` said; 0 for one that has passed."""
    return max(0.0, (datetime.fromisoformat(moment) - datetime.now(UTC)).total_seconds())
