"""The application below ``/a2a/AGENT``: who calls, then the routes of the SDK, for JSON-RPC and for REST.

Without a key that opens the agent of the address there is its card alone, and only where its user lets somebody call.
"""

import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus

from a2a.server.context import ServerCallContext
from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.server.request_handlers.response_helpers import agent_card_to_dict
from a2a.server.routes import ServerCallContextBuilder, create_jsonrpc_routes, create_rest_routes
from a2a.utils.constants import A2A_JSON_MEDIA_TYPE, AGENT_CARD_WELL_KNOWN_PATH
from google.protobuf.json_format import MessageToDict
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hermesops.a2a.bodies import refusal, refused_body, whole
from hermesops.a2a.cards import OLDER, card_of
from hermesops.a2a.handler import ADDRESS, CALLER
from hermesops.errors import HermesError
from hermesops.model.chat.caller import Caller
from hermesops.serving.limits import Limits, TooManyError
from hermesops.users.callers.service import Callers, UnknownCallerError

PREFIX = "/a2a"
Refuse = Callable[[Request, Exception], JSONResponse]
"""Renders the refusal of a request that reaches no route."""

_ADDRESS = re.compile(
    r"/(?P<agent>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?P<older>" + OLDER + r")?(?P<path>/.*)?"
)
_HIDDEN = frozenset({b"cookie", b"authorization"})


@dataclass(frozen=True)
class A2AParts:
    """What the application calls.

    Attributes:
        origin: Of the platform, as ``https://HOST``.
        handler: Answers the protocol's methods.
        refuse: Renders refusals as the process does elsewhere.
        check: Raises where the caller's agent takes no requests now.
    """

    origin: str
    callers: Callers
    limits: Limits
    handler: RequestHandler
    refuse: Refuse
    check: Callable[[Caller], Awaitable[object]]


class _Calls(ServerCallContextBuilder):
    """The context of a call: its caller, and the headers that versions and extensions need."""

    def build(self, request: Request) -> ServerCallContext:
        """Build the context of a request that ``A2A`` has let in."""
        headers = {name: value for name, value in request.headers.items() if name.encode() not in _HIDDEN}
        state: Mapping[str, object] = request.scope["state"]
        return ServerCallContext(
            state={"headers": headers, CALLER: state[CALLER], ADDRESS: state[ADDRESS]}, requested_extensions=set()
        )


class A2A:
    """Serves every agent below the prefix."""

    def __init__(self, parts: A2AParts) -> None:
        self._parts = parts
        self._routes: ASGIApp = Starlette(routes=_routes(parts.handler))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        request = Request(scope, receive)
        try:
            answer = await self._admitted(request)
        except (HermesError, TooManyError) as error:
            answer = self._parts.refuse(request, error)
        if isinstance(answer, JSONResponse):
            await answer(scope, receive, send)
            return
        await self._routes(answer, whole(await request.body(), receive), _as_json(send))

    async def _admitted(self, request: Request) -> JSONResponse | Scope:
        """The scope of a request whose key opens its agent; or the answer, of one for a card.

        Raises:
            UnknownCallerError: See there.
            TooManyError: See there.
            AgentSuspendedError: The agent does not run now.
        """
        parts = self._parts
        match = _ADDRESS.fullmatch(_path(request.scope))
        if match is None:
            raise UnknownCallerError("the key is not valid for this agent")
        agent, is_older, path = match["agent"], bool(match["older"]), match["path"] or "/"
        address = f"{parts.origin}{PREFIX}/{agent}"
        if path == AGENT_CARD_WELL_KNOWN_PATH and request.method in {"GET", "HEAD"}:
            return await self._card(agent, address, is_older=is_older)
        caller = await parts.callers.of_request(agent, request.headers.get("authorization", ""))
        parts.limits.admit(caller.id, "read")
        await parts.check(caller)
        if refused := await refused_body(request):
            return refusal(path, refused)
        state = {**request.scope.get("state", {}), CALLER: caller, ADDRESS: address}
        return {**request.scope, "state": state, "path": path, "raw_path": path.encode(), "root_path": ""}

    async def _card(self, agent: str, address: str, *, is_older: bool) -> JSONResponse:
        if not await self._parts.callers.is_open(agent):
            return JSONResponse({"code": "no-such-agent"}, HTTPStatus.NOT_FOUND)
        card = card_of(address)
        document = agent_card_to_dict(card) if is_older else MessageToDict(card)
        tag = sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:32]
        return JSONResponse(document, headers={"cache-control": "max-age=300", "etag": f'"{tag}"'})


def _as_json(send: Send) -> Send:
    """Name JSON as the specification does in section 11.1; the SDK has a name of its own for it."""

    async def named(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            if headers.get("content-type") == A2A_JSON_MEDIA_TYPE:
                headers["content-type"] = "application/json"
        await send(message)

    return named


def _path(scope: Scope) -> str:
    """The path below the prefix."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return path.removeprefix(root) if path.startswith(root) else path


def _routes(handler: RequestHandler) -> list[BaseRoute]:
    logging.getLogger("a2a").setLevel(logging.CRITICAL + 1)  # its lines hold what callers sent
    calls = _Calls()
    return [
        *create_jsonrpc_routes(handler, "/", context_builder=calls, enable_v0_3_compat=True),
        *create_rest_routes(handler, context_builder=calls, enable_v0_3_compat=True),
    ]
