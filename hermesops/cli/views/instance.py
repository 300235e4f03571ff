"""What ``hermesops instance list|show`` prints: shapes for programs, cells and sections for people."""

from typing import TYPE_CHECKING

from hermesops.cli.rows import Age
from hermesops.cli.views import shapes
from hermesops.cli.views.shapes import timestamp

if TYPE_CHECKING:
    from datetime import datetime

    from hermesops.agents.health.instance_list import ListedInstance

COLUMNS = ("user", "health", "status", "release", "plan", "age", "region", "cell")
"""Of the list of instances."""

UNKNOWN = "unknown"


def listed(row: "ListedInstance", now: "datetime") -> dict[str, object]:
    """An instance in a list; ``null`` for a release that is not recorded, and for the health of one that stands."""
    health, release = row.health, row.release
    return {
        **shapes.instance(row.instance),
        "health": health.condition.value if health else None,
        "reasons": list(health.reasons) if health else [],
        "release": release.id if release else None,
        "release_since": timestamp(release.since) if release else None,
        "region": row.region or None,
        "age_s": _age_s(row, now),
    }


def listed_row(row: "ListedInstance", now: "datetime") -> dict[str, object]:
    """The same for people."""
    shape = {**listed(row, now), **shapes.instance_line(row.instance)}
    del shape["age_s"]
    return {**shape, "release": shape["release"] or UNKNOWN, "age": Age(_age_s(row, now))}


def _age_s(row: "ListedInstance", now: "datetime") -> int:
    return max(0, round((now - row.instance.created_at).total_seconds()))
