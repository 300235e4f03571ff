"""The role that each request needs. Pure."""

import re

from hermesops.console.actions.action import About, Action
from hermesops.console.actions.served import find_served
from hermesops.model.access.console_operator import Role

_SAFE = frozenset({"GET", "HEAD"})
_CHANGES = frozenset({"change", "bulk"})
"""Parts of paths that name an action."""

_ACTION = re.compile(r"/console/(?:(?P<about>[^/]+)/[^/]+/)?change/(?P<name>[^/]+)")
_BULK = re.compile(r"/console/bulk/(?P<name>[^/]+)")

_OWN = frozenset({"/console/links", "/console/links/remove"})
"""Changes of what an operator keeps for themselves."""


def role_needed(method: str, path: str) -> Role:
    """The role for a request: of the action that its path names, else of a viewer to read.

    Whatever changes something and is no known action needs the highest role.
    """
    if _CHANGES & {*path.split("/")}:
        return role_of(change_of(path))
    return Role.VIEWER if method in _SAFE or path in _OWN else Role.ADMIN


def role_of(action: Action | None) -> Role:
    """The role for an action; the highest for one that workers do not carry out."""
    return (action.role if action else None) or Role.ADMIN


def change_of(path: str) -> Action | None:
    """The action that a path names, of one subject or of many instances; ``None`` for none that workers carry out."""
    if bulk := _BULK.fullmatch(path):
        return find_served(About.INSTANCE, bulk["name"])
    match = _ACTION.fullmatch(path)
    return find_served(match["about"] or About.FLEET, match["name"]) if match else None
