"""``/api/hermes/callers``: agents of others that may call the user's agent by A2A."""

from datetime import datetime
from http import HTTPStatus
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, HTTPException
from pydantic import BaseModel, Field

from hermesops.api.parts import ApiParts, CurrentUser, Parts
from hermesops.api.routes.shapes import Name, Strict, Text
from hermesops.model.chat.caller import Caller
from hermesops.users.callers.service import LONGEST_NAME, MOST_HOSTS, Callers

router = APIRouter(tags=["callers"])

Host = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[A-Za-z0-9.-]+$")]


class CallerRequest(Strict):
    """An agent that may call the user's.

    Attributes:
        name: The user's name of it; the user's agent is told.
        push_hosts: Hosts that may be notified of its tasks, by ``https``.
        may_approve: Whether it may answer when its own task asks for approval.
        client_key: Chosen by the client: the same key makes no second caller.
    """

    name: Annotated[Text, Field(min_length=1, max_length=LONGEST_NAME, pattern=r"\S")]
    client_key: Name
    push_hosts: Annotated[list[Host], Field(default_factory=list, max_length=MOST_HOSTS)]
    may_approve: bool = False


class CallerAnswer(BaseModel):
    """An agent that may call the user's.

    Attributes:
        used_at: Last use of its key, to some minutes; ``None`` for never.
    """

    id: str
    name: str
    push_hosts: list[str]
    may_approve: bool
    created_at: datetime
    used_at: datetime | None


class CallersAnswer(BaseModel):
    """The address of the user's agent, ``None`` without an agent, and who may call it."""

    address: str | None
    callers: list[CallerAnswer]


class MadeCallerAnswer(BaseModel):
    """A caller that was made.

    Attributes:
        address: Where the user's agent is called; its card is below ``/.well-known/agent-card.json``.
        key: Shown once; ``None`` where the same request had made the caller before.
    """

    caller: CallerAnswer
    address: str
    key: str | None


@router.get("/callers")
async def list_callers(user: CurrentUser, parts: Parts) -> CallersAnswer:
    """List the agents that may call the user's agent."""
    callers = await _service(parts).list(user)
    address = _address(parts, callers[0]) if callers else None
    return CallersAnswer(address=address, callers=[_answer(caller) for caller in callers])


@router.post("/callers", status_code=201)
async def make_caller(body: CallerRequest, user: CurrentUser, parts: Parts) -> MadeCallerAnswer:
    """Let one more agent call the user's. Its key is in this answer, and nowhere else."""
    added = await _service(parts).make(user, body.client_key, body.name, body.push_hosts, may_approve=body.may_approve)
    return MadeCallerAnswer(caller=_answer(added.caller), address=_address(parts, added.caller), key=added.key)


@router.delete("/callers/{caller_id}", status_code=204)
async def revoke_caller(caller_id: UUID, user: CurrentUser, parts: Parts) -> None:
    """End an agent's key; its next request is refused. What it began goes on."""
    await _service(parts).revoke(user, str(caller_id))


def _service(parts: ApiParts) -> Callers:
    if parts.callers is None:
        raise HTTPException(HTTPStatus.NOT_IMPLEMENTED)
    return parts.callers


def _address(parts: ApiParts, caller: Caller) -> str:
    return f"{parts.origin}/a2a/{caller.instance_id}"


def _answer(caller: Caller) -> CallerAnswer:
    return CallerAnswer(
        id=caller.id,
        name=caller.name,
        push_hosts=list(caller.push_hosts),
        may_approve=caller.may_approve,
        created_at=caller.created_at,
        used_at=caller.used_at,
    )
