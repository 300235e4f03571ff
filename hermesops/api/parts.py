"""The services that routes call, and the user of a request."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, cast

import structlog
from fastapi import Depends
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp

from hermesops.access.sign_in.signed_tokens import InvalidTokenError
from hermesops.api.figures import RequestCounts
from hermesops.api.pages_served import Pages
from hermesops.api.sign_in.page_sessions import COOKIE, PageSessions
from hermesops.api.sign_in.tokens import Tokens
from hermesops.errors import HermesError
from hermesops.model.ids import UserId
from hermesops.serving.limits import Kind, Limits
from hermesops.store.user_rows.accounts import UserAccounts
from hermesops.store.user_rows.files import ChatFiles
from hermesops.store.user_rows.metering import MeteredSums
from hermesops.store.user_rows.plans import UserPlans
from hermesops.users.agent_jobs.service import AgentJobs
from hermesops.users.agent_settings.service import CopiedSettings
from hermesops.users.billing.door import StripeDoor
from hermesops.users.callers.service import Callers
from hermesops.users.chat.service import Chat
from hermesops.users.connections.agent_calls import AgentCalls
from hermesops.users.connections.service import Connections
from hermesops.users.messaging.inbound.door import DiscordDoor, SlackDoor, TelegramDoor, WhatsAppDoor
from hermesops.users.messaging.inbound.links import MessengerLinks
from hermesops.users.user_requests.service import Requests

CHECK_S = 60.0
"""Seconds after which ``is_signed_in`` is asked again: a token may have ended, a session or a user been refused."""

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_SAME = frozenset({"", "none", "same-origin"})

log = structlog.get_logger()


class ForeignRequestError(Exception):
    """A page of another origin made a browser send the request."""


@dataclass(frozen=True, kw_only=True)
class UserParts:
    """What a process needs to know whose request it answers.

    Attributes:
        origin: Of the pages, as browsers send it.
        hosts: Names by which the process is asked.
    """

    origin: str
    hosts: frozenset[str]
    tokens: Tokens
    sessions: PageSessions
    limits: Limits


@dataclass(frozen=True, kw_only=True)
class ConnectionParts(UserParts):
    """What routes of connections call.

    Attributes:
        connections: ``None`` where this process has no project at the vendor of connections.
        agent_calls: As ``connections``.
    """

    connections: Connections | None = None
    agent_calls: AgentCalls | None = None


@dataclass(frozen=True, kw_only=True)
class ApiParts(ConnectionParts):
    """Everything that routes call.

    Attributes:
        settings: ``None`` where this process may not read settings.
        stripe: ``None`` where there is no signing secret of Stripe's.
        messengers: ``None`` where the platform has no bot.
        telegram: ``None`` where there is no secret of Telegram's webhook.
        slack: ``None`` where there is no signing secret of Slack's.
        discord: ``None`` where the public key of the application at Discord is not set.
        whatsapp: ``None`` where there is no secret of the app at Meta, or no key of its people's digests.
        callers: ``None`` where nobody may call users' agents.
        a2a: Serves those calls; as ``callers``.
        heard: Called when a messenger's report was stored.
        model_provider_url: Of a local world's stand-in of a model provider; empty for none.
    """

    accounts: UserAccounts
    files: ChatFiles
    chat: Chat
    jobs: AgentJobs
    settings: CopiedSettings
    pages: Pages
    requests: Requests
    plans: UserPlans
    metered: MeteredSums
    stripe: StripeDoor | None = None
    messengers: MessengerLinks | None = None
    telegram: TelegramDoor | None = None
    slack: SlackDoor | None = None
    whatsapp: WhatsAppDoor | None = None
    discord: DiscordDoor | None = None
    callers: Callers | None = None
    a2a: ASGIApp | None = None
    heard: Callable[[], None] = lambda: None
    model_provider_url: str = ""
    counts: RequestCounts = field(default_factory=RequestCounts)


def connection_parts_of(request: HTTPConnection) -> ConnectionParts:
    """The services of connections, which each process of users has."""
    return cast("ConnectionParts", request.app.state.parts)


def parts_of(request: HTTPConnection) -> ApiParts:
    """The services of the application that serves this request."""
    return cast("ApiParts", request.app.state.parts)


async def current_user(
    request: HTTPConnection, parts: Annotated[ConnectionParts, Depends(connection_parts_of)]
) -> UserId:
    """The user of a request or of a socket, counted; each route of a user takes it.

    Raises:
        InvalidTokenError: There is no valid bearer token, and no session.
        ForeignRequestError: See there.
        TooManyError: The user asks too often.
    """
    user = await user_of(request, parts)
    request.state.user = user
    parts.limits.admit(user, kind_of(request))
    return user


async def user_of(request: HTTPConnection, parts: UserParts) -> UserId:
    """The only way from a token or a cookie to a user.

    Raises:
        InvalidTokenError: There is no valid bearer token, and no session.
        ForeignRequestError: See there.
    """
    authorization = request.headers.get("authorization", "")
    if authorization:
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise InvalidTokenError("a bearer token is required")
        return await parts.tokens.user_of(token.strip())
    cookie = request.cookies.get(COOKIE, "")
    if not cookie:
        raise InvalidTokenError("sign in, or send a bearer token")
    refuse_foreign(request, parts.origin)
    return await parts.sessions.user_of(cookie)


async def is_signed_in(request: HTTPConnection, parts: UserParts) -> bool:
    """Whether the token or session of an open stream or socket is still valid; yes where that cannot be known now."""
    try:
        await user_of(request, parts)
    except (InvalidTokenError, ForeignRequestError):
        return False
    except HermesError as error:  # the database or the issuer is away for a moment
        log.info("stream_not_checked", why=error.message)
    return True


def refuse_foreign(request: HTTPConnection, origin: str) -> None:
    """Refuse what a page of another origin made a browser send with our cookie.

    Raises:
        ForeignRequestError: See there.
    """
    headers = request.headers
    if headers.get("sec-fetch-site", "") not in _SAME:
        raise ForeignRequestError("this request comes from another site")
    if request.scope["type"] == "websocket":  # browsers send no header of a page's with it
        if headers.get("origin") != origin:
            raise ForeignRequestError("this socket lacks its origin")
        return
    if request.scope["method"] in _SAFE:
        return
    if headers.get("origin") != origin or headers.get("x-hermes-request") != "1":
        raise ForeignRequestError("this request lacks its origin, or the header X-Hermes-Request")


def kind_of(request: HTTPConnection) -> Kind:
    """Which limit a request counts against."""
    if request.scope["type"] == "websocket" or request.scope["method"] in _SAFE:
        return "read"
    match request.url.path.rpartition("/")[2]:
        case "chat":
            return "turn"
        case "files":
            return "file"
    return "change"


CurrentUser = Annotated[UserId, Depends(current_user)]
Parts = Annotated[ApiParts, Depends(parts_of)]
PartsOfConnections = Annotated[ConnectionParts, Depends(connection_parts_of)]
