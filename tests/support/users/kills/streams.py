"""Two ways in which a page reads a turn: server-sent events, and the WebSocket."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from tests.support.users.api import Event, events_in
from tests.support.users.kills.asking import Asking, AwayError

_REFUSAL_S = 5.0
"""Seconds after which an answer that was not refused counts as taken; frames that answer have a reference."""

Problem = Mapping[str, Any]


@dataclass(frozen=True)
class Stream:
    """An open one.

    Attributes:
        events: Of one turn, as they come.
        approve: Answers a request for approval of a turn, by its number, with a choice; whether it is known that the
            agent got it. Raises as ``Asking.stream``.
    """

    events: AsyncIterator[Event]
    approve: Callable[[str, str, str], Awaitable[bool]]


Way = Callable[[Asking, Mapping[str, object], str, str], AbstractAsyncContextManager[Stream]]
"""Opens a stream for a user: of a message, or where it has a turn, of that turn behind a cursor."""


@asynccontextmanager
async def by_events(asking: Asking, message: Mapping[str, object], turn: str, cursor: str) -> AsyncIterator[Stream]:
    """Send a message, or resume its turn, by server-sent events; answers go by a request of their own."""

    async def approve(turn: str, number: str, choice: str) -> bool:
        async with asking.stream("POST", f"/chat/turns/{turn}/approval", body={"id": number, "choice": choice}):
            return True

    headers = {"last-event-id": cursor} if cursor else {}
    method, path = ("GET", f"/chat/turns/{turn}/events") if turn else ("POST", "/chat")
    async with asking.stream(method, path, headers=headers, body=None if turn else message) as response:
        yield Stream(events_in(response), approve)


@asynccontextmanager
async def by_socket(asking: Asking, message: Mapping[str, object], turn: str, cursor: str) -> AsyncIterator[Stream]:
    """Send a message, or follow its turn, by a WebSocket, on which answers go, too; refusals alone are told of."""
    frame = {"type": "follow", "turn": turn, "after": cursor} if turn else {"type": "send", **message}
    refusals: dict[str, asyncio.Future[Problem]] = {}
    async with asking.socket("/chat/socket") as socket:

        async def approve(turn: str, number: str, choice: str) -> bool:
            answer = {"type": "approve", "turn": turn, "id": number, "choice": choice, "ref": number}
            refused = refusals[number] = asyncio.get_running_loop().create_future()
            try:
                await socket.send(json.dumps(answer))
                problem = await asyncio.wait_for(refused, _REFUSAL_S)
            except TimeoutError:
                return False
            except ConnectionClosed as closed:
                raise AwayError(str(closed)) from closed
            raise await asking.refusal("approval", problem)

        await socket.send(json.dumps(frame))
        yield Stream(_events_of(asking, socket, refusals), approve)


async def _events_of(
    asking: Asking, socket: ClientConnection, refusals: Mapping[str, "asyncio.Future[Problem]"]
) -> AsyncIterator[Event]:
    async for text in socket:
        frame: Mapping[str, Any] = json.loads(text)
        if frame["event"] != "problem":
            yield Event(frame["id"], frame["event"], frame["data"])
        elif not frame["ref"]:
            raise await asking.refusal("socket", frame["data"])
        elif not refusals[frame["ref"]].done():
            refusals[frame["ref"]].set_result(frame["data"])
