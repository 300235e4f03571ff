"""``/mcp``: agents' calls to their users' services. An agent has its own token here, and is no user."""

from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, HTTPException, Path, Request
from fastapi.responses import Response, StreamingResponse

from hermesops.api.parts import PartsOfConnections
from hermesops.users.connections.mcp_proxy import McpAnswer

router = APIRouter()

Agent = Annotated[str, Path(pattern=r"^[0-9a-f-]{36}$")]
_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}


@router.post("/mcp/{agent}")
async def call(agent: Agent, request: Request, parts: PartsOfConnections) -> Response:
    """Pass a message of the Model Context Protocol on."""
    if parts.agent_calls is None:
        raise HTTPException(HTTPStatus.NOT_FOUND)
    authorization, body = request.headers.get("authorization", ""), await request.body()
    answer = parts.agent_calls.take(agent, authorization, request.headers, body)
    head = await anext(answer)
    assert isinstance(head, McpAnswer)  # noqa: S101 - as the iterator says
    return StreamingResponse(_body(answer), head.status, {**_HEADERS, **head.headers})


async def _body(answer: AsyncIterator[McpAnswer | bytes]) -> AsyncIterator[bytes]:
    async for piece in answer:
        assert isinstance(piece, bytes)  # noqa: S101 - as above
        yield piece
