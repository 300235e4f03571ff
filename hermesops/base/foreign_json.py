"""JSON of sides that may be hostile, parsed without holding the event loop of a service.

The time of parsing is that of the values, not of the bytes: 8 MB of tiny objects take two seconds, one text of 8 MB a
hundredth of one (measured 2026-12-01). So values are counted before a document is parsed, and larger documents are
parsed in threads of their own, since those of the database must not wait for them.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from hermesops.wire import strict_json
from hermesops.wire.strict_json import MalformedJSONError

T = TypeVar("T")

_AT_ONCE = 16 << 10
"""Bytes that are parsed where they are: some milliseconds, whatever they hold."""

_threads = ThreadPoolExecutor(2, "json")


def has_more(text: bytes, most: int) -> bool:
    """Whether a document has more values than that. Pure.

    Signs within its texts do not count: a transcript of prose and programs has hundreds of thousands of them. Of a
    document with an error it is right for the part before the error, and no parser reads further.

    Args:
        text: In UTF-8.
    """
    if _signs_in(text) <= most:
        return False
    plain = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    if plain.count(b'"') > 2 * (most + 1):  # each text stands between two signs
        return True
    return _signs_in(b"".join(plain.split(b'"')[::2])) > most


def object_in(text: bytes, *, most: int, largest: int = strict_json.LARGEST) -> dict[str, Any]:
    """Parse an object of at most so many values, in the caller's thread.

    Args:
        largest: Bytes that are looked at at all.

    Raises:
        MalformedJSONError: It is none, or exceeds the limits.
    """
    if len(text) <= largest and has_more(text, most):
        raise MalformedJSONError(f"more than {most} values")
    return strict_json.parse_object(text, largest=largest)


async def parsed_object(text: bytes, *, most: int, largest: int) -> dict[str, Any]:
    """Parse an object as ``object_in`` does; a larger one while the event loop goes on."""

    def parse() -> dict[str, Any]:
        return object_in(text, most=most, largest=largest)

    return parse() if len(text) <= _AT_ONCE else await in_thread(parse)


async def in_thread(work: Callable[[], T]) -> T:
    """Do work that takes a fraction of a second of the processor while the event loop goes on."""
    return await asyncio.get_running_loop().run_in_executor(_threads, work)


def _signs_in(text: bytes) -> int:
    return sum(map(text.count, (b",", b"[", b"{", b":")))
