"""``/api/hermes/chat``: turns of the user with their agent, as server-sent events that resume; and conversations."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, Field

from hermesops.api.parts import CurrentUser, Parts
from hermesops.api.routes.shapes import Name, Strict, Text
from hermesops.api.turn_stream import position_in, turn_stream
from hermesops.users.chat.files import MOST
from hermesops.users.chat.service import LONGEST_MESSAGE

router = APIRouter(tags=["chat"])

_EVENTS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": (
            "Server-sent events. First `turn` {id, conversation, client_key}; then, each with the id `TURN:NUMBER`, "
            "`delta` {text}, `tool` {name, state, preview}, `approval` {id, command, description, choices} and "
            "`resolved` {id, choice}; last one of `done` {text}, `failed` {detail} and `stopped` {}. `text` of `done` "
            "is the whole answer. A comment comes every 15 s."
        ),
        "content": {"text/event-stream": {}},
    }
}
CURSOR = r"^(?:[0-9a-f-]{36}:\d{1,12})?$"
"""A turn and a position in it; empty for none."""


class ChatRequest(Strict):
    """A message to the agent.

    Attributes:
        client_key: The client's own name of the request; repeating it begins no second turn.
        files: Ids of files that were uploaded for this message.
    """

    message: Annotated[Text, Field(min_length=1, max_length=LONGEST_MESSAGE, pattern=r"\S")]
    conversation: Name
    client_key: Name
    files: Annotated[
        list[Annotated[str, Field(pattern=r"^[0-9a-f-]{36}$")]], Field(default_factory=list, max_length=MOST)
    ]


class ApprovalRequest(Strict):
    """The answer to a request for approval; ``id`` is the request's, as its event has it."""

    id: Annotated[str, Field(pattern=r"^[0-9]{1,6}$")]
    choice: Literal["once", "session", "always", "deny"]


class TurnAnswer(BaseModel):
    """The state of a turn; done, failed and stopped are final."""

    id: str
    conversation: str
    state: Literal["queued", "sending", "running", "done", "failed", "stopped"]


class ConversationAnswer(BaseModel):
    """A conversation; ``title`` is empty where the agent has none yet, or does not answer."""

    name: str
    title: str
    last_at: datetime
    open_turn: str | None


class MessageAnswer(BaseModel):
    """A message of a conversation; ``at`` is null where the agent does not say when."""

    id: int
    role: Literal["user", "assistant"]
    text: str
    at: datetime | None


class UnansweredTurn(BaseModel):
    """The newest turn, which ended without an answer.

    Attributes:
        detail: The reason, for the user; empty for a turn that the user stopped.
    """

    id: str
    state: Literal["failed", "stopped"]
    detail: str


class MessagesAnswer(BaseModel):
    """The messages of a conversation, oldest first, the turn that has not ended, and one that ended without answer."""

    messages: list[MessageAnswer]
    open_turn: str | None
    unanswered: UnansweredTurn | None = None


@router.post("/chat", response_class=StreamingResponse, responses=_EVENTS)
async def send_message(body: ChatRequest, request: Request, user: CurrentUser, parts: Parts) -> StreamingResponse:
    """Send a message to the agent. The answer streams as server-sent events, of which the first names the turn."""
    turn = await parts.chat.begin(user, body.conversation, body.client_key, body.message, body.files)
    return turn_stream(request, parts, turn, 0)


@router.get("/chat/turns/{turn_id}/events", response_class=StreamingResponse, responses=_EVENTS)
async def read_events(
    turn_id: UUID,
    request: Request,
    user: CurrentUser,
    parts: Parts,
    last_event_id: Annotated[str, Header(pattern=CURSOR)] = "",
    after: Annotated[str, Query(pattern=CURSOR)] = "",
) -> StreamingResponse:
    """Read a turn's events, those behind ``Last-Event-ID`` (or ``after``) where it is of this turn, else all."""
    turn = await parts.chat.turn(user, str(turn_id))
    return turn_stream(request, parts, turn, position_in(last_event_id or after, turn.id))


@router.post("/chat/turns/{turn_id}/stop")
async def stop_turn(turn_id: UUID, user: CurrentUser, parts: Parts) -> TurnAnswer:
    """Stop a turn. It ends once its agent has stopped; one that has ended stays as it is."""
    turn = await parts.chat.stop(user, str(turn_id))
    return TurnAnswer.model_validate({"id": turn.id, "conversation": turn.conversation, "state": turn.state.value})


@router.post("/chat/turns/{turn_id}/approval", status_code=204)
async def answer_approval(turn_id: UUID, body: ApprovalRequest, user: CurrentUser, parts: Parts) -> None:
    """Answer the agent's request for approval; 409 where it does not wait for this one any more."""
    await parts.chat.approve(user, str(turn_id), int(body.id), body.choice)


@router.get("/chat/conversations")
async def list_conversations(user: CurrentUser, parts: Parts) -> list[ConversationAnswer]:
    """List the user's conversations, the last used one first."""
    conversations = await parts.chat.conversations(user)
    return [ConversationAnswer.model_validate(vars(conversation)) for conversation in conversations]


@router.get("/chat/conversations/{conversation}")
async def get_conversation(conversation: Name, user: CurrentUser, parts: Parts) -> MessagesAnswer:
    """Show the messages of a conversation, oldest first; none for one that has not begun."""
    spoken = await parts.chat.messages(user, conversation)
    shown = [{"id": each.id, "role": each.role, "text": each.text, "at": each.at} for each in spoken.messages]
    ended, is_open = spoken.unanswered, spoken.open_turn
    return MessagesAnswer.model_validate(
        {
            "messages": shown,
            "open_turn": is_open.id if is_open else None,
            "unanswered": {"id": ended.id, "state": ended.state, "detail": ended.detail} if ended else None,
        }
    )


@router.delete("/chat/conversations/{conversation}", status_code=204)
async def delete_conversation(conversation: Name, user: CurrentUser, parts: Parts) -> None:
    """Delete a conversation at the agent. What the agent has put into its memory stays there."""
    await parts.chat.forget(user, conversation)
