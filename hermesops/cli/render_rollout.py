"""Shapes of what is told of rollouts, freezes and policies; the rules of ``render`` hold here too."""

from datetime import datetime
from typing import TYPE_CHECKING

from hermesops.cli.render import moment

if TYPE_CHECKING:
    from hermesops.model.freeze import Freeze
    from hermesops.model.instance_policy import InstancePolicy


def freeze(one: "Freeze", now: datetime) -> dict[str, object]:
    """A freeze, and whether it holds."""
    return {
        "id": one.id,
        "state": "holds" if one.holds_at(now) else "past" if one.is_past(now) else "to come",
        "begins_at": moment(one.begins_at),
        "ends_at": moment(one.ends_at),
        "lifted_at": moment(one.lifted_at),
        "reason": one.reason,
        "who": one.who,
    }


def policy(held: "InstancePolicy") -> dict[str, object]:
    """What is to be minded of an instance."""
    quiet = held.quiet
    return {
        "turn": "first" if held.opted_in else "last" if held.protected else "as it comes",
        "opted_in": held.opted_in,
        "protected": held.protected,
        "quiet_hours": f"{quiet.begin:%H:%M}-{quiet.end:%H:%M}" if quiet else None,
        "timezone": quiet.timezone if quiet else None,
    }
