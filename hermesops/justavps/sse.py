"""Server-sent events out of lines. Pure: no network, no clock."""

from collections.abc import AsyncIterable, AsyncIterator
from dataclasses import dataclass


@dataclass(frozen=True)
class ServerSentEvent:
    """One event.

    Attributes:
        event: Its name; ``message`` when the server gave none.
        data: Its data lines, joined by newlines.
    """

    event: str
    data: str


async def events_of(lines: AsyncIterable[str]) -> AsyncIterator[ServerSentEvent]:
    """Yield each event as its blank line arrives; a trailing event without one is yielded at the end.

    The standard drops such a trailing event. Here it may be the one that carries an exit code, so it is kept.

    Source:
        WHATWG HTML, "Server-sent events", interpreting an event stream.
    """
    name = ""
    data: list[str] = []
    async for line in lines:
        if not line:
            if data or name:
                yield ServerSentEvent(name or "message", "\n".join(data))
            name, data = "", []
            continue
        if line.startswith(":"):
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "event":
            name = value
        elif field == "data":
            data.append(value)
    if data or name:
        yield ServerSentEvent(name or "message", "\n".join(data))
