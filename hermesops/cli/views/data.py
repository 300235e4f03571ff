"""Shapes of what is printed about users' data; the rules of ``render`` hold here too."""

from collections.abc import Sequence

from hermesops.model.fleet import LowOnDisk
from hermesops.model.plan import GB

_NAMED = 10
"""Agents that people are told of; programs are told of all."""


def crowded(agents: Sequence[LowOnDisk]) -> list[dict[str, object]]:
    """Agents that are low on disk."""
    return [{"user": one.user, "plan": one.plan.value, "bytes": one.bytes, "size": one.size} for one in agents]


def crowded_lines(agents: Sequence[LowOnDisk]) -> list[str]:
    """The same for people."""
    lines = [
        f"data: {one.user} has {one.bytes / GB:.1f} of {one.size / GB:.0f} GB full, by the newest backup;"
        f" hermesops instance resize {one.user} --plan heavy, or the user deletes some: runbooks/data-volume.md"
        for one in agents[:_NAMED]
    ]
    more = len(agents) - _NAMED
    return [*lines, *([f"data: {more} more are as full"] if more > 0 else [])]
