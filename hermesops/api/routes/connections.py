"""``/api/hermes/connections``: services that the user's agent may use."""

from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import APIRouter, HTTPException, Path, Request
from fastapi.responses import RedirectResponse, Response
from pydantic import BaseModel

from hermesops.access.sign_in.signed_tokens import InvalidTokenError
from hermesops.api.parts import ConnectionParts, CurrentUser, PartsOfConnections
from hermesops.api.sign_in.page_sessions import COOKIE
from hermesops.model.connections.connection import ConnectionState
from hermesops.users.connections.service import Connections, ServiceConnection, StaleLinkError

router = APIRouter(tags=["connections"])
pages = APIRouter()
"""Where browsers come back from a service."""

CALLBACK = "/hermes-max/connections/callback"
_SECTION = "/hermes-max/chat#/connections"

Slug = Annotated[str, Path(pattern=r"^[a-z0-9]{1,64}$")]
State = Annotated[str, Path(pattern=r"^[A-Za-z0-9_-]{43}$")]

Word = Literal["none", "pending", "active", "expired", "failed"]
_WORDS: dict[ConnectionState | None, Word] = {
    None: "none",
    ConnectionState.REQUESTED: "pending",
    ConnectionState.CONFIRMED: "pending",
    ConnectionState.LINKED: "active",
    ConnectionState.EXPIRED: "expired",
    ConnectionState.FAILED: "failed",
}


class ConnectionAnswer(BaseModel):
    """A service, and the user's connection to it.

    Attributes:
        offered: Whether it can be connected.
        since: Begin of this state; ``None`` for ``none``.
        detail: The reason of ``expired`` and ``failed``.
    """

    service: str
    title: str
    purpose: str
    offered: bool
    state: Word
    since: datetime | None
    detail: str


class LinkAnswer(BaseModel):
    """The address to which the user's browser shall go, within ten minutes."""

    auth_url: str


@router.get("/connections")
async def list_connections(user: CurrentUser, parts: PartsOfConnections) -> list[ConnectionAnswer]:
    """List the services, with the user's connections."""
    return [_answer(each) for each in await _service(parts).list(user)]


@router.post("/connections/{service}")
async def connect_service(service: Slug, request: Request, user: CurrentUser, parts: PartsOfConnections) -> LinkAnswer:
    """Ask for a link by which the user connects a service. It works in the browser session that asked for it alone."""
    session = "" if request.headers.get("authorization") else request.cookies.get(COOKIE, "")
    return LinkAnswer(auth_url=await _service(parts).begin(user, service, session))


@router.delete("/connections/{service}", status_code=204)
async def disconnect_service(service: Slug, user: CurrentUser, parts: PartsOfConnections) -> None:
    """Disconnect a service. The agent has no access from now on; the service's tokens are revoked."""
    await _service(parts).disconnect(user, service)


@pages.get(f"{CALLBACK}/{{state}}")
async def come_back(state: State, request: Request, parts: PartsOfConnections) -> Response:
    """Take a browser that comes back from a service, and show the connections. Its address alone proves nothing."""
    cookie = request.cookies.get(COOKIE, "")
    try:
        user = await parts.sessions.user_of(cookie)
        parts.limits.admit(user, "change")
        await _service(parts).come_back(user, cookie, state)
    except (InvalidTokenError, StaleLinkError):
        pass  # the page signs in, or shows the connections as they are
    return RedirectResponse(_SECTION, HTTPStatus.SEE_OTHER)


def _service(parts: ConnectionParts) -> Connections:
    if parts.connections is None:
        raise HTTPException(HTTPStatus.NOT_IMPLEMENTED)
    return parts.connections


def _answer(each: ServiceConnection) -> ConnectionAnswer:
    return ConnectionAnswer(
        service=each.service.slug,
        title=each.service.title,
        purpose=each.service.purpose,
        offered=each.is_offered,
        state=_WORDS[each.state],
        since=each.since,
        detail=each.detail,
    )
