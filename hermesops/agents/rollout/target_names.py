"""Phrases that several messages of a rollout share. Pure."""

from collections.abc import Sequence

from hermesops.model.rollout.records import RolloutTarget

_NAMED = 4
"""Users named in one line; the rest are counted."""


def names(targets: Sequence[RolloutTarget]) -> str:
    """The users of targets, as ``ada, bob and 3 more``."""
    users = [target.facts.user for target in targets]
    if len(users) <= _NAMED:
        return ", ".join(users)
    return f"{', '.join(users[: _NAMED - 1])} and {len(users) - _NAMED + 1} more"
