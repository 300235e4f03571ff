"""``/api/hermes/chat``: turns of the user with their agent, as server-sent events that resume."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Header
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from hermesops.api.parts import CurrentUser, Parts
from hermesops.base.waiting import cancel
from hermesops.model.chat.turn import Turn
from hermesops.users.chat.events import ChatEvent
from hermesops.users.chat.service import LONGEST_MESSAGE

router = APIRouter(tags=["chat"])

_NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"
Conversation = Annotated[str, Field(pattern=_NAME)]


class ChatRequest(BaseModel):
    """A message to the agent.

    Attributes:
        client_key: Of the client's own; repeating a request with the same key begins no second turn.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    message: Annotated[str, Field(min_length=1, max_length=LONGEST_MESSAGE, pattern=r"\S")]
    conversation: Conversation = "main"
    client_key: Annotated[str, Field(pattern=_NAME)]


class ApprovalRequest(BaseModel):
    """The answer to a request for approval."""

    model_config = ConfigDict(extra="forbid", strict=True)

    choice: Literal["once", "session", "always", "deny"]


class TurnAnswer(BaseModel):
    """The state of a turn."""

    id: str
    conversation: str
    state: str


class MessageAnswer(BaseModel):
    """A message of a conversation."""

    id: int
    role: Literal["user", "assistant"]
    text: str


@router.post("/chat")
async def send_message(body: ChatRequest, user: CurrentUser, parts: Parts) -> StreamingResponse:
    """Send a message to the agent; the answer streams as server-sent events, and names the turn first."""
    turn = await parts.chat.begin(user, body.conversation, body.client_key, body.message)
    return _stream(turn, parts.chat.events(user, turn.id, 0))


@router.get("/chat/turns/{turn_id}/events")
async def resume(
    turn_id: UUID,
    user: CurrentUser,
    parts: Parts,
    last_event_id: Annotated[str, Header(pattern=r"^(?:[0-9a-f-]{36}:\d{1,9})?$")] = "",
) -> StreamingResponse:
    """Read a turn's events, those behind ``Last-Event-ID`` where it is of this turn."""
    turn = await parts.chat.turn(user, str(turn_id))
    of_turn, _, position = last_event_id.partition(":")
    after = int(position) if of_turn == turn.id else 0
    return _stream(turn, parts.chat.events(user, turn.id, after))


@router.post("/chat/turns/{turn_id}/stop")
async def stop(turn_id: UUID, user: CurrentUser, parts: Parts) -> TurnAnswer:
    """Stop a turn; one that has ended stays as it is."""
    turn = await parts.chat.stop(user, str(turn_id))
    return TurnAnswer(id=turn.id, conversation=turn.conversation, state=turn.state.value)


@router.post("/chat/turns/{turn_id}/approval", status_code=204)
async def approve(turn_id: UUID, body: ApprovalRequest, user: CurrentUser, parts: Parts) -> None:
    """Answer the agent's request for approval."""
    await parts.chat.approve(user, str(turn_id), body.choice)


@router.get("/chat/conversations/{conversation}")
async def get_conversation(conversation: Conversation, user: CurrentUser, parts: Parts) -> list[MessageAnswer]:
    """List the messages of a conversation, oldest first."""
    messages = await parts.chat.messages(user, conversation)
    return [MessageAnswer.model_validate({"id": m.id, "role": m.role, "text": m.text}) for m in messages]


def _stream(turn: Turn, events: AsyncIterator[ChatEvent]) -> StreamingResponse:
    headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
    return StreamingResponse(_sse(turn, events), media_type="text/event-stream", headers=headers)


async def _sse(turn: Turn, events: AsyncIterator[ChatEvent]) -> AsyncIterator[str]:
    """Server-sent events: the turn's name before anything else, then each event with its position as id."""
    yield _event("turn", {"id": turn.id, "conversation": turn.conversation, "client_key": turn.client_key}, "")
    following = asyncio.ensure_future(anext(events, None))
    try:
        while True:
            done, _ = await asyncio.wait({following}, timeout=15.0)
            if not done:
                yield ": waiting\n\n"
                continue
            event = following.result()
            if event is None:
                return
            yield _event(event.kind, event.data, f"{turn.id}:{event.id}")
            if event.is_last:
                return
            following = asyncio.ensure_future(anext(events, None))
    finally:
        await cancel(following)


def _event(kind: str, data: object, id_: str) -> str:
    head = f"id: {id_}\n" if id_ else ""
    return f"{head}event: {kind}\ndata: {json.dumps(data)}\n\n"
