"""A turn's events as server-sent events, which a client resumes by the id of the last one it got.

Source: WHATWG HTML, "Server-sent events".
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

from fastapi import Request
from fastapi.responses import StreamingResponse

from hermesops.api.parts import CHECK_S, ApiParts, is_signed_in
from hermesops.base.waiting import cancel
from hermesops.model.chat.turn import Turn
from hermesops.users.chat.events import ChatEvent

_KEEP_ALIVE_S = 15.0
"""Seconds without an event after which a comment says that the connection lives."""

_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


def turn_stream(request: Request, parts: ApiParts, turn: Turn, after: int) -> StreamingResponse:
    """Answer with a turn's events behind a position; the answer ends early where the request's token has ended.

    Raises:
        TooManyError: The user has too many streams open.
    """
    parts.limits.refuse_stream(turn.user_id)

    async def held() -> AsyncIterator[str]:
        with parts.limits.stream(turn.user_id):
            events = parts.chat.events(turn, after)
            async for text in events_as_text(turn, events, partial(is_signed_in, request, parts)):
                yield text

    return StreamingResponse(held(), media_type="text/event-stream", headers=_HEADERS)


def position_in(cursor: str, turn_id: str) -> int:
    """The position that a cursor names; 0 where it is another turn's. Pure."""
    of_turn, _, position = cursor.partition(":")
    return int(position) if of_turn == turn_id else 0


def about(turn: Turn) -> dict[str, object]:
    """The data of the event that names a turn, before its others."""
    return {"id": turn.id, "conversation": turn.conversation, "client_key": turn.client_key}


async def events_as_text(
    turn: Turn, events: AsyncIterator[ChatEvent], may_read: Callable[[], Awaitable[bool]]
) -> AsyncIterator[str]:
    """The turn's name before anything else, then each event with its position as id, and comments in between."""
    yield _event("turn", about(turn), "")
    following, checked = asyncio.ensure_future(_next(events)), time.monotonic()
    try:
        while True:
            done, _ = await asyncio.wait({following}, timeout=_KEEP_ALIVE_S)
            if time.monotonic() - checked > CHECK_S:
                if not await may_read():
                    return
                checked = time.monotonic()
            if not done:
                yield ": waiting\n\n"
                continue
            event = following.result()
            if event is None:
                return
            yield _event(event.kind, event.data, f"{turn.id}:{event.id}")
            if event.is_last:
                return
            following = asyncio.ensure_future(_next(events))
    finally:
        await cancel(following)


async def _next(events: AsyncIterator[ChatEvent]) -> ChatEvent | None:
    return await anext(events, None)


def _event(kind: str, data: object, id_: str) -> str:
    head = f"id: {id_}\n" if id_ else ""
    return f"{head}event: {kind}\ndata: {json.dumps(data)}\n\n"
