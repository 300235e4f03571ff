"""Values of somebody else's JSON, taken only when they are of the expected form. Pure.

Each raises ``BadRequestError`` with the field's name and never with its value, which may be a secret.
"""

import re
from collections.abc import Mapping
from typing import Any

from hermesops.node.errors import BadRequestError


def mapping(raw: object, where: str) -> dict[str, Any]:
    """An object."""
    if not isinstance(raw, dict):
        raise BadRequestError(f"{where}: not an object")
    return dict(raw)


def listed(raw: object, where: str) -> list[Any]:
    """A list."""
    if not isinstance(raw, list):
        raise BadRequestError(f"{where}: not a list")
    return raw


def exactly(
    fields: Mapping[str, object], where: str, *, required: set[str] | None = None, optional: set[str] | None = None
) -> None:
    """Go on if all required fields are there, and none beyond them and the optional ones."""
    needed = required or set()
    missing, unknown = needed - fields.keys(), fields.keys() - needed - (optional or set())
    if missing:
        raise BadRequestError(f"{where}: lacks {', '.join(sorted(missing))}")
    if unknown:
        raise BadRequestError(f"{where}: unknown field {', '.join(sorted(unknown))}")


def string(raw: object, where: str) -> str:
    """Any text without a NUL."""
    if not isinstance(raw, str) or "\0" in raw:
        raise BadRequestError(f"{where}: not a text")
    return raw


def one_line(raw: object, where: str) -> str:
    """A text without line breaks and control characters."""
    text = string(raw, where)
    if not text.isprintable():
        raise BadRequestError(f"{where}: holds a line break or a control character")
    return text


def matching(raw: object, pattern: re.Pattern[str], where: str) -> str:
    """A text of which all matches a pattern."""
    if not isinstance(raw, str) or pattern.fullmatch(raw) is None:
        raise BadRequestError(f"{where}: not of the expected form")
    return raw
