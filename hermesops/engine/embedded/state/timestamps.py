"""Times as the state writes them."""

from datetime import UTC, datetime


def now() -> str:
    """Say the present moment in UTC, RFC 3339 with microseconds."""
    return datetime.now(UTC).isoformat().replace("+00:00", "Z")
