"""Times as all shapes have them."""

from datetime import datetime


def timestamp(when: datetime | None) -> str | None:
    """ISO 8601 in UTC, to the second."""
    return when.isoformat(timespec="seconds") if when else None
