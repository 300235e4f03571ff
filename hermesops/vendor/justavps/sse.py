"""Server-sent events out of lines. Pure: no network, no clock."""

from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import dataclass

_LARGEST = 1 << 20
"""Characters of one event's data."""


@dataclass(frozen=True)
class ServerSentEvent:
    """One server-sent event.

    Attributes:
        event: Name of the event; ``message`` if the server sent none.
        data: Data lines, joined by newlines.
    """

    event: str
    data: str


async def events_of(lines: AsyncIterable[str]) -> AsyncIterator[ServerSentEvent]:
    """Yield each event as its blank line arrives; a trailing event without one is yielded at the end.

    An event is cut after a mebibyte, which no event of JustAVPS reaches.

    The standard drops such a trailing event. Here it may be the one that carries an exit code, so it is kept.

    Source:
        WHATWG HTML, "Server-sent events", interpreting an event stream.
    """
    name, size = "", 0
    data: list[str] = []
    async for line in lines:
        if not line:
            if data or name:
                yield ServerSentEvent(name or "message", "\n".join(data))
            name, size, data = "", 0, []
            continue
        if line.startswith(":"):
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data" and size < _LARGEST:
            data.append(value)
            size += len(value) + 1
    if data or name:
        yield ServerSentEvent(name or "message", "\n".join(data))
