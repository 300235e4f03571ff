"""The role that each request needs. Pure."""

from hermesops.agents.operator_requests.actions import ACTIONS, OperatorAction
from hermesops.model.access.console_operator import Role

_SAFE = frozenset({"GET", "HEAD"})
_CHANGE = "change"


def role_needed(method: str, path: str) -> Role:
    """The role for a request: of the action that its path names, else of a viewer to read.

    Whatever changes something and is no known action needs the highest role.
    """
    *_, before, _ = ("", *path.split("/"))
    if before == _CHANGE:
        action = change_of(path)
        return action.role if action else Role.ADMIN
    return Role.VIEWER if method in _SAFE else Role.ADMIN


def change_of(path: str) -> OperatorAction | None:
    """The change that a path names; ``None`` for none that workers carry out."""
    *_, before, name = ("", *path.split("/"))
    return ACTIONS.get(name) if before == _CHANGE else None
