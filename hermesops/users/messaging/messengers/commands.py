"""Commands of users: words for them in apps that keep a leading slash to themselves, and buttons for two. Pure."""

import re
from collections.abc import Mapping

BUTTONS: Mapping[str, str] = {"/approve": "Approve", "/deny": "Deny"}
"""Labels of the buttons below a request for approval, by the command that each stands for."""

_NAMED = re.compile(r"(?<![\w/])[/!](approve|deny)(?![\w/])")
_COMMAND = re.compile(r"!(?=[a-z]{1,16}(?:\s|$))|(?=(?:[Ll]ink|[Ss]tart)\s+[A-Z0-9]{16}\s*$)")


def with_slash(text: str) -> str:
    """A text whose ``!approve`` is ``/approve``, and whose ``link CODE`` is ``/link CODE``."""
    match = _COMMAND.match(text)
    if match is None:
        return text
    rest = text[match.end() :]
    return f"/{rest[0].lower()}{rest[1:]}"


def is_request(text: str) -> bool:
    """Whether a text asks for an approval, as hermes-agent 0.19.0 does: it names both commands."""
    return set(_NAMED.findall(text)) == {"approve", "deny"}


def command_of(button: object) -> str:
    """The command that a button stands for; empty for none of ours."""
    return button if isinstance(button, str) and button in BUTTONS else ""
