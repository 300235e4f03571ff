"""The error for a name that an operator typed and that does not exist: exit 2, with the nearest names.

A name that is missing in stored data is another error.
"""

import difflib
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Literal

from hermesops.errors import Hint, UsageError

Noun = Literal[
    "alert",
    "backup",
    "billing event",
    "caller",
    "cell",
    "job",
    "copy of the state",
    "drill",
    "environment",
    "fault",
    "freeze",
    "image",
    "machine",
    "message",
    "operation",
    "orphan",
    "release",
    "rollout",
    "runbook",
    "secret",
    "setting",
    "silence",
    "snapshot",
    "stack",
    "token",
    "user",
]

LISTED_BY: Mapping[Noun, tuple[str, ...]] = {
    "alert": ("alert", "list", "--all"),
    "backup": ("backup", "list", "OF"),
    "billing event": ("billing", "list"),
    "caller": ("user", "caller", "list"),
    "cell": ("cell", "list"),
    "job": ("job", "list"),
    "copy of the state": ("stack", "rollback-state", "OF", "--list"),
    "drill": ("drill", "list"),
    "environment": ("env", "list"),
    "fault": ("local", "fault", "kinds"),
    "freeze": ("rollout", "freezes", "--all"),
    "image": ("image", "list"),
    "machine": ("cell", "show", "OF"),
    "message": ("message", "list"),
    "operation": ("operation", "list", "--all"),
    "orphan": ("fleet", "drift"),
    "release": ("release", "list"),
    "rollout": ("rollout", "list", "--all"),
    "runbook": ("runbook", "list"),
    "secret": ("secrets", "list"),
    "setting": ("settings", "show"),
    "silence": ("alert", "silence", "--list"),
    "snapshot": ("snapshot", "list", "OF"),
    "stack": ("stack", "list"),
    "token": ("token", "list", "OF"),
    "user": ("instance", "list"),
}
"""The command that lists the things of each noun; OF is whose they are."""

_SHOWN = 80
"""Characters of a name that are shown."""

_COMPARED = 20_000
"""Known names that are compared: 0.2 s at most, on the way to an error."""

_NEAREST = 3
_LIKENESS = 0.7

_ID_SHOWN = 8
"""Characters of an id that people type, that are compared, and that are shown."""


def unknown_name(noun: Noun, text: str, known: Iterable[str] = (), *, of: str = "", where: str = "") -> UsageError:
    """The error for a name that does not exist.

    Args:
        noun: What it would be the name of.
        text: As typed.
        known: Names that exist; those with unprintable characters are ignored.
        of: The owner, for the command that lists them; empty for none.
        where: Where it was searched, as `` on the machine of ada``; by default `` of `` and ``of``.
    """
    return _unknown(noun, text, _nearest(text, known), of, where)


def _unknown(noun: Noun, text: str, near: list[str], of: str, where: str = "") -> UsageError:
    problem = f"no {noun} {shown(text)}{where or (f' of {of}' if of else '')}"
    return UsageError(f"{problem}; nearest: {', '.join(near)}" if near else problem, hint=_listed_by(noun, of))


def find_by_id(noun: Noun, text: str, ids: Iterable[str], *, of: str = "") -> str:
    """The only id that begins with the typed text.

    An empty text is no id; ``of`` is as for ``unknown_name``.

    Raises:
        UsageError: None begins so, or several do.
    """
    known = list(ids)
    matches = [id_ for id_ in known if text and id_.startswith(text)]
    if text in matches or len(matches) == 1:
        return text if text in matches else matches[0]
    if not matches:
        beginnings = dict.fromkeys(id_[:_ID_SHOWN] for id_ in known)
        raise _unknown(noun, text, _nearest(text[:_ID_SHOWN], beginnings), of)
    some = ", ".join(matches[:_NEAREST]) + (" …" if len(matches) > _NEAREST else "")
    raise UsageError(
        f"the ids of {len(matches)} {noun}s begin with {shown(text)}: {some}",
        hint=_listed_by(noun, of),
    )


def _listed_by(noun: Noun, of: str) -> Hint:
    return Hint(LISTED_BY[noun]).put(**({"OF": of} if of else {}))


def shown(text: str) -> str:
    """A typed name for display: quoted, short, and without control characters."""
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def _nearest(text: str, known: Iterable[str]) -> list[str]:
    if len(text) > _SHOWN:
        return []
    some = [name for name in islice(known, _COMPARED) if name and len(name) <= _SHOWN and name.isprintable()]
    names = {name.lower(): name for name in some}  # of most nouns they are of lower case, of alerts they are not
    return [names[match] for match in difflib.get_close_matches(text.lower(), names, n=_NEAREST, cutoff=_LIKENESS)]
