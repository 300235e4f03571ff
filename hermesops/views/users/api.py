"""JSON objects of the users' API as operators see it."""

from typing import TYPE_CHECKING

from hermesops.views.timestamps import timestamp

if TYPE_CHECKING:
    from hermesops.model.api_figures import OrphanedTurn, UsersHalf
    from hermesops.platform.parts.user_credentials import IssuedFiles


def status(half: "UsersHalf") -> dict[str, object]:
    """The state of the API: counts, and ids of turns that nobody carries."""
    return {
        "processes": half.processes,
        **vars(half.requests),
        "orphaned_users": half.orphaned_users,
        "orphaned_turns": [orphan(turn) for turn in half.orphaned],
        "connections": [vars(each) for each in half.connections],
    }


def orphan(turn: "OrphanedTurn") -> dict[str, object]:
    """A turn that no process of the API carries, by ids alone."""
    return {
        "turn": turn.id,
        "instance": turn.instance_id,
        "user_id": turn.user_id,
        "state": turn.state,
        "since": timestamp(turn.since),
    }


def credentials(issued: "IssuedFiles") -> dict[str, object]:
    """The files that the users' processes of a host need; ``missing`` names secrets that the environment lacks."""
    return {"folder": str(issued.folder), "changed": list(issued.changed), "missing": list(issued.missing)}
