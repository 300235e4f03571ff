"""The role that each request needs. Pure."""

import re

from hermesops.console.actions.action import About, Action
from hermesops.console.actions.served import find_served
from hermesops.model.access.console_operator import Role

_SAFE = frozenset({"GET", "HEAD"})
_CHANGE = "change"
_ACTION = re.compile(r"/console/(?:(?P<about>[^/]+)/[^/]+/)?change/(?P<name>[^/]+)")


def role_needed(method: str, path: str) -> Role:
    """The role for a request: of the action that its path names, else of a viewer to read.

    Whatever changes something and is no known action needs the highest role.
    """
    if _CHANGE in path.split("/"):
        return role_of(change_of(path))
    return Role.VIEWER if method in _SAFE else Role.ADMIN


def role_of(action: Action | None) -> Role:
    """The role for an action; the highest for one that workers do not carry out."""
    return (action.role if action else None) or Role.ADMIN


def change_of(path: str) -> Action | None:
    """The action that a path names; ``None`` for none that workers carry out."""
    match = _ACTION.fullmatch(path)
    return find_served(match["about"] or About.FLEET, match["name"]) if match else None
