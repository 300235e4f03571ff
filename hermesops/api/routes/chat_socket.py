"""``/api/hermes/chat/socket``: the chat over a WebSocket, for clients that keep one open.

It offers nothing that the routes of ``chat`` do not: the same turns, events, cursors and limits. A client sends objects
of JSON, each with its ``type``, and a ``ref`` of its own by which it knows the answer:

- ``send`` {message, conversation, client_key, files}: begin a turn, and follow it;
- ``follow`` {turn, after}: follow a turn behind a cursor, ``TURN:NUMBER``; it is followed once at a time;
- ``stop`` {turn}, ``approve`` {turn, id, choice}.

It gets objects with ``ref``, ``event``, ``turn``, ``id`` and ``data`` as server-sent events have them; the data of
``problem`` is as ``application/problem+json``. The socket closes with 4401 once its token or session has ended.
"""

import asyncio
import json
from collections.abc import Coroutine, Mapping
from http import HTTPStatus
from typing import Annotated, Any, Literal

import structlog
from fastapi import APIRouter, WebSocket
from pydantic import Field, TypeAdapter, ValidationError
from starlette.websockets import WebSocketDisconnect, WebSocketState

from hermesops.api.parts import CHECK_S, ApiParts, CurrentUser, Parts, is_signed_in
from hermesops.api.problems import body_of, refusal_of
from hermesops.api.routes.chat import CURSOR, ApprovalRequest, ChatRequest
from hermesops.api.routes.shapes import Name, Strict
from hermesops.api.turn_stream import about, position_in
from hermesops.base.waiting import cancel, pause
from hermesops.errors import HermesError
from hermesops.model.chat.turn import Turn
from hermesops.model.ids import UserId
from hermesops.serving.limits import Kind, TooManyError

router = APIRouter()

LARGEST_FRAME = 1 << 20
"""Bytes of a client's frame, as of a body."""

UNAUTHORIZED = 4401
TOO_SLOW = 4408
FAILED = 1011
_ENDED = 1000
_NO_TEXT = 1003
_SLOW_S = 30.0
"""Seconds for a client to take a frame."""

_MOST_FOLLOWED = 4

log = structlog.get_logger()

Id = Annotated[str, Field(pattern=r"^[0-9a-f-]{36}$")]
Ref = Name | Literal[""]


class Send(ChatRequest):
    """Begin a turn, and follow it."""

    type: Literal["send"]
    ref: Ref = ""


class Follow(Strict):
    """Follow a turn: events after a cursor, and new ones as they come."""

    type: Literal["follow"]
    turn: Id
    after: Annotated[str, Field(pattern=CURSOR)] = ""
    ref: Ref = ""


class Stop(Strict):
    """Stop a turn; what the agent has done stays done."""

    type: Literal["stop"]
    turn: Id
    ref: Ref = ""


class Approve(ApprovalRequest):
    """Answer the request for approval for which a turn waits."""

    type: Literal["approve"]
    turn: Id
    ref: Ref = ""


Frame = Send | Follow | Stop | Approve
_FRAME: TypeAdapter[Frame] = TypeAdapter(Annotated[Frame, Field(discriminator="type")])


@router.websocket("/chat/socket")
async def chat_socket(socket: WebSocket, user: CurrentUser, parts: Parts) -> None:
    """Serve a user's socket until it closes."""
    parts.limits.refuse_stream(user)
    await socket.accept()
    with parts.limits.stream(user):
        await ChatSocket(socket, parts, user).run()


class _EndedError(Exception):
    """Nothing more can be sent.

    Args:
        code: To close the socket with.
    """

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class ChatSocket:
    """A user's open socket.

    Args:
        socket: Is accepted.
    """

    def __init__(self, socket: WebSocket, parts: ApiParts, user: UserId) -> None:
        self._socket = socket
        self._parts = parts
        self._user = user
        self._following: dict[str, asyncio.Task[None]] = {}
        self._sending = asyncio.Lock()
        self._unsent: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def run(self) -> None:
        """Serve until the client or its token ends, or a mistake of ours ends it."""
        ends = [
            asyncio.ensure_future(self._code_of(self._read())),
            asyncio.ensure_future(self._code_of(self._look_again())),
            self._unsent,
        ]
        try:
            done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel(*ends, *self._following.values())
        if self._socket.client_state is WebSocketState.CONNECTED:
            await self._close(done.pop().result())

    async def _code_of(self, work: Coroutine[Any, Any, int], **names: str) -> int:
        """The code to close with, by how the work ends. An error that nobody foresaw is logged by these names."""
        try:
            return await work
        except _EndedError as ended:
            return ended.code
        except Exception:
            log.exception("socket_failed", request_id=self._socket.state.request_id, **names)
            return FAILED

    async def _close(self, code: int) -> None:
        try:
            async with asyncio.timeout(_SLOW_S):
                await self._socket.close(code)
        except (TimeoutError, RuntimeError, WebSocketDisconnect):  # the client is gone
            return

    async def _read(self) -> int:
        """Answer frames until the client ends; the code to close with."""
        while (message := await self._socket.receive())["type"] == "websocket.receive":
            text = message.get("text")
            if text is None:
                return _NO_TEXT
            await self._answer(text)
        return _ENDED

    async def _look_again(self) -> int:
        while await is_signed_in(self._socket, self._parts):
            await pause(CHECK_S)
        return UNAUTHORIZED

    async def _answer(self, text: str) -> None:
        try:
            frame = _FRAME.validate_json(text)
        except (ValidationError, ValueError):
            await self._refuse("", HTTPStatus.UNPROCESSABLE_ENTITY, "malformed", "malformed: the frame")
            return
        try:
            self._parts.limits.admit(self._user, _kind_of(frame))
            await self._carry_out(frame)
        except TooManyError as error:
            await self._refuse(frame.ref, HTTPStatus.TOO_MANY_REQUESTS, "too-many-requests", str(error))
        except HermesError as error:
            await self._refuse(frame.ref, *refusal_of(error))

    async def _carry_out(self, frame: Frame) -> None:
        chat, user = self._parts.chat, self._user
        match frame:
            case Send():
                turn = await chat.begin(user, frame.conversation, frame.client_key, frame.message, frame.files)
                await self._follow(turn, 0, frame.ref)
            case Follow():
                turn = await chat.turn(user, frame.turn)
                await self._follow(turn, position_in(frame.after, turn.id), frame.ref)
            case Stop():
                turn = await chat.stop(user, frame.turn)
                await self._send(frame.ref, "turn", turn.id, {**about(turn), "state": turn.state.value})
            case Approve():
                await chat.approve(user, frame.turn, int(frame.id), frame.choice)

    async def _follow(self, turn: Turn, after: int, ref: str) -> None:
        if previous := self._following.pop(turn.id, None):
            await cancel(previous)
        if len(self._following) >= _MOST_FOLLOWED:
            raise TooManyError(f"more than {_MOST_FOLLOWED} turns are followed", 5)
        self._following[turn.id] = asyncio.ensure_future(self._follow_until_end(turn, after, ref))

    async def _follow_until_end(self, turn: Turn, after: int, ref: str) -> None:
        """Send a turn's events; one that cannot be sent ends the socket, since its client would wait for ever."""
        try:
            code = await self._code_of(self._send_events(turn, after, ref), turn=turn.id)
            if code and not self._unsent.done():
                self._unsent.set_result(code)
        finally:
            if self._following.get(turn.id) is asyncio.current_task():
                del self._following[turn.id]

    async def _send_events(self, turn: Turn, after: int, ref: str) -> int:
        """Send a turn's events until its end or a refusal; 0."""
        try:
            await self._send(ref, "turn", turn.id, about(turn))
            async for event in self._parts.chat.events(turn, after):
                await self._send(ref, event.kind, turn.id, event.data, f"{turn.id}:{event.id}")
        except HermesError as error:
            await self._refuse(ref, *refusal_of(error))
        return 0

    async def _refuse(self, ref: str, status: HTTPStatus, code: str, detail: str) -> None:
        await self._send(ref, "problem", "", body_of(status, code, detail, self._socket.state.request_id))

    async def _send(self, ref: str, event: str, turn: str, data: Mapping[str, object], id_: str = "") -> None:
        text = json.dumps({"ref": ref, "event": event, "turn": turn, "id": id_, "data": dict(data)})
        try:
            async with asyncio.timeout(_SLOW_S), self._sending:
                await self._socket.send_text(text)
        except TimeoutError:
            raise _EndedError(TOO_SLOW) from None
        except (WebSocketDisconnect, RuntimeError):  # the client is gone
            raise _EndedError(_ENDED) from None


def _kind_of(frame: Frame) -> Kind:
    """Which limit a frame counts against, as its route does."""
    match frame:
        case Send():
            return "turn"
        case Follow():
            return "read"
        case Stop() | Approve():
            return "change"
