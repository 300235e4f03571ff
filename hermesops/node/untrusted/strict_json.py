"""JSON from a side that may be hostile: parsed whole, within bounds, or refused with one kind of error. Pure."""

import json
import re
from collections.abc import Iterable
from math import isfinite
from typing import Any

LARGEST = 1 << 20
"""Bytes of a document that nobody needs to be larger."""

DEEPEST = 32
"""How many lists and objects may stand in each other: more than any shape of ours, far less than Python's recursion."""

_LONGEST_INTEGER = 20
"""Characters of an integer: those of 64 bits and a sign."""

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
"""Half of a character. Source: RFC 8259, section 8.2; RFC 7493, section 2.1, forbids one without the other."""


class MalformedJSONError(ValueError):
    """What came is not JSON as RFC 8259 has it, or is larger, deeper or stranger than anything we asked for."""


def parse(text: bytes | str, *, largest: int = LARGEST) -> Any:  # noqa: ANN401 - JSON has no narrower type
    """Parse a document.

    Args:
        text: As it came.
        largest: Bytes, or characters, that are looked at at all.

    Returns:
        Its value. Every number in it is finite, every name in an object stands there once, every text has bytes.

    Raises:
        MalformedJSONError: It is none; the message repeats nothing of it.
    """
    if len(text) > largest:
        raise MalformedJSONError(f"larger than {largest} bytes")
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
    if _SURROGATE.search(text):
        _refuse_half_characters(value)
    return value


def parse_object(text: bytes | str, *, largest: int = LARGEST) -> dict[str, Any]:
    """Parse a document that has to be an object.

    Raises:
        MalformedJSONError: It is something else.
    """
    value = parse(text, largest=largest)
    if not isinstance(value, dict):
        raise MalformedJSONError("not an object")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):  # two readers of such an object may each see another value
        raise MalformedJSONError("a name stands in an object twice")
    return found


def _no_constant(_: str) -> Any:  # noqa: ANN401 - json's signature
    raise MalformedJSONError("NaN or Infinity, which JSON has not")


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise MalformedJSONError("a number beyond what a float holds")
    return value


def _integer(text: str) -> int:
    if len(text) > _LONGEST_INTEGER:
        raise MalformedJSONError("a number beyond 64 bits")
    return int(text)


def _refuse_deep(value: object) -> None:
    level: list[object] = [value]
    for _ in range(DEEPEST):
        level = [inner for one in level for inner in _inside(one)]
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
