"""The role that each request needs. Pure."""

from hermesops.agents.operator_requests.actions import ACTIONS
from hermesops.model.access.console_operator import Role

_SAFE = frozenset({"GET", "HEAD"})
_CHANGE = "change"


def role_needed(method: str, path: str) -> Role:
    """The role for a request: of the action that its path names, else of a viewer to read.

    Whatever changes something and is no known action needs the highest role.
    """
    *_, before, name = ("", *path.split("/"))
    if before == _CHANGE:
        action = ACTIONS.get(name)
        return action.role if action else Role.ADMIN
    return Role.VIEWER if method in _SAFE else Role.ADMIN
