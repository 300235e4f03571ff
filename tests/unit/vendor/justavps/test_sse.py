from collections.abc import AsyncIterator

from hermesops.vendor.justavps.sse import ServerSentEvent, events_of


async def _lines(text: str) -> AsyncIterator[str]:
    for line in text.split("\n"):
        yield line


async def _events(text: str) -> list[ServerSentEvent]:
    return [event async for event in events_of(_lines(text))]


async def test_events_are_split_at_blank_lines() -> None:
    assert await _events("event: a\ndata: 1\n\ndata:2\ndata: 3\n\n") == [
        ServerSentEvent("a", "1"),
        ServerSentEvent("message", "2\n3"),
    ]


async def test_comments_and_unknown_fields_are_passed_over() -> None:
    assert await _events(": ping\nid: 7\nretry: 3\ndata: x\n\n\n\n") == [ServerSentEvent("message", "x")]


async def test_a_last_event_without_its_blank_line_counts() -> None:
    assert await _events("event: exit\ndata: 0") == [ServerSentEvent("exit", "0")]


async def test_an_event_may_have_no_data() -> None:
    assert await _events("event: ping\n\n") == [ServerSentEvent("ping", "")]
