"""Words that users write for commands in messengers whose apps keep a leading slash to themselves. Pure."""

import re

_COMMAND = re.compile(r"!(?=[a-z]{1,16}(?:\s|$))|(?=(?:[Ll]ink|[Ss]tart)\s+[A-Z0-9]{16}\s*$)")


def with_slash(text: str) -> str:
    """A text whose ``!approve`` is ``/approve``, and whose ``link CODE`` is ``/link CODE``."""
    match = _COMMAND.match(text)
    if match is None:
        return text
    rest = text[match.end() :]
    return f"/{rest[0].lower()}{rest[1:]}"
