"""JSON from a side that may be hostile: parsed whole, within bounds, and its fields checked, or refused. Pure.

A check of a field raises ``BadRequestError`` with the field's name and never with its value, which may be a secret.
"""

import json
import re
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

from hermesops.wire.errors import BadRequestError

LARGEST = 1 << 20
"""Limit of a document in bytes."""

DEEPEST = 32
"""Limit of nested lists and objects: more than any shape of ours, far less than Python's recursion limit."""

_LONGEST_INTEGER = 20
"""Characters of an integer: those of 64 bits and a sign."""

_ESCAPED_HALF, _RAW_HALF = re.compile(r"\\u[dD][89a-fA-F]"), re.compile(r"[\ud800-\udfff]")
"""Halves of characters; bytes in UTF-8 have no raw one. One search for both takes twenty times as long, in which no
other thread runs. Source: RFC 8259, section 8.2; RFC 7493, section 2.1, forbids one without the other."""


class MalformedJSONError(ValueError):
    """The text is not JSON of RFC 8259, or exceeds the limits."""


def parse(text: bytes | str, *, largest: int = LARGEST) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """Parse a document.

    Args:
        largest: Bytes, or characters, that are looked at at all.

    Returns:
        Its value. Every number in it is finite, every name in an object stands there once, every text has bytes.

    Raises:
        MalformedJSONError: It is no JSON, or exceeds the limits; the message repeats nothing of it.
    """
    if len(text) > largest:
        raise MalformedJSONError(f"larger than {largest} bytes")
    may_be_raw = isinstance(text, str)
    try:
        text = text.decode() if isinstance(text, bytes) else text
        value = json.loads(
            text, object_pairs_hook=_object, parse_constant=_no_constant, parse_float=_finite, parse_int=_integer
        )
    except MalformedJSONError:
        raise
    except RecursionError:
        raise MalformedJSONError(f"nested deeper than {DEEPEST}") from None
    except ValueError:  # also UnicodeDecodeError; neither may be repeated, since both quote the text
        raise MalformedJSONError("not JSON") from None
    _refuse_deep(value)
    if _ESCAPED_HALF.search(text) or (may_be_raw and _RAW_HALF.search(text)):
        _refuse_half_characters(value)
    return value


def parse_object(text: bytes | str, *, largest: int = LARGEST) -> dict[str, Any]:
    """Parse a document that has to be an object.

    Raises:
        MalformedJSONError: It is no object.
    """
    value = parse(text, largest=largest)
    if not isinstance(value, dict):
        raise MalformedJSONError("not an object")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):  # two readers of such an object may see different values
        raise MalformedJSONError("an object has a name twice")
    return result


def _no_constant(_: str) -> Any:  # noqa: ANN401 - json's signature
    raise MalformedJSONError("NaN or Infinity, which JSON has not")


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise MalformedJSONError("a number exceeds the range of a float")
    return value


def _integer(text: str) -> int:
    if len(text) > _LONGEST_INTEGER:
        raise MalformedJSONError("a number beyond 64 bits")
    return int(text)


def _refuse_deep(value: object) -> None:
    level: list[object] = [value]
    for _ in range(DEEPEST):
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return
    raise MalformedJSONError(f"nested deeper than {DEEPEST}")


def _refuse_half_characters(value: object) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise MalformedJSONError("half of a character") from None


def _inside(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def object_in(data: bytes, where: str, *, largest: int = LARGEST) -> dict[str, Any]:
    """The object in a document of at most so many bytes."""
    if len(data) > largest:
        raise BadRequestError(f"{where}: {len(data)} bytes, more than {largest}")
    try:
        return mapping(parse(data, largest=largest), where)
    except MalformedJSONError:
        raise BadRequestError(f"{where}: not JSON") from None


def mapping(raw: object, where: str) -> dict[str, Any]:
    """Check that a value is an object; return it."""
    if not isinstance(raw, dict):
        raise BadRequestError(f"{where}: not an object")
    return dict(raw)


def listed(raw: object, where: str) -> list[Any]:
    """Check that a value is a list; return it."""
    if not isinstance(raw, list):
        raise BadRequestError(f"{where}: not a list")
    return raw


def exactly(
    fields: Mapping[str, object], where: str, *, required: set[str] | None = None, optional: set[str] | None = None
) -> None:
    """Refuse an object that lacks a required field, or has one that is neither required nor optional."""
    needed = required or set()
    missing, unknown = needed - fields.keys(), fields.keys() - needed - (optional or set())
    if missing:
        raise BadRequestError(f"{where}: lacks {', '.join(sorted(missing))}")
    if unknown:
        raise BadRequestError(f"{where}: unknown field {', '.join(sorted(unknown))}")


def string(raw: object, where: str) -> str:
    """Check that a value is text without a NUL; return it."""
    if not isinstance(raw, str) or "\0" in raw:
        raise BadRequestError(f"{where}: not a text")
    return raw


def one_line(raw: object, where: str) -> str:
    """Check that a value is text without line breaks and control characters; return it."""
    text = string(raw, where)
    if not text.isprintable():
        raise BadRequestError(f"{where}: holds a line break or a control character")
    return text


def matching(raw: object, pattern: re.Pattern[str], where: str) -> str:
    """Check that a value is text that matches a whole pattern; return it."""
    if not isinstance(raw, str) or pattern.fullmatch(raw) is None:
        raise BadRequestError(f"{where}: not of the expected form")
    return raw


def whole_number(raw: object, where: str) -> int:
    """Check that a value is a whole number from 0 on; return it."""
    if not isinstance(raw, int) or isinstance(raw, bool) or raw < 0:
        raise BadRequestError(f"{where}: not a whole number")
    return raw
