"""What every request meets first: the gate, the role that it needs, bounds of the body; and headers of responses."""

import asyncio
from collections.abc import MutableMapping
from http import HTTPStatus
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hermesops.console.operators.gate import PAGES, Admission, Gate, admitted
from hermesops.console.operators.roles import role_needed
from hermesops.errors import UnavailableError
from hermesops.serving.exchange import Head, RefusedRequestError

PREFIX = PAGES
"""Of the paths of all pages and files."""

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; "
    "script-src 'self'; "
    "style-src 'self'; "
    "img-src 'self'; "
    "connect-src 'self'; "
    "form-action 'self'; "
    "frame-ancestors 'none'; "
    "base-uri 'none'"
)
"""Nothing inline, nothing of other hosts, no code from text."""

HEADERS = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
"""Of each response, unless the route has others."""

LARGEST_BODY = 16 * 1024
"""Bytes of a form: a reason, and a few words beside it."""

_BODY_S = 10.0
"""Seconds for a body."""

_FROM_SCRIPT = b"hx-request"
"""A header that forms of other websites cannot send; htmx sends it with each request
(https://htmx.org/reference/#request_headers)."""


_STREAM = "text/event-stream"


class _SessionEndedError(Exception):
    """The session of a stream has ended."""


class Front:
    """Admits the requests that a gate admits, from the console's own pages."""

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self._app = app
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; sockets are refused."""
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            _refuse_nul(scope)
            admission = await self._gate.admit(_head(scope))
            if isinstance(admission, Response):
                await admission(scope, receive, answer)
                return
            _refuse_role(scope, admission)
            body = await _body(scope, receive)
        except RefusedRequestError as refused:
            await PlainTextResponse(f"{refused.words}\n", refused.status.value)(scope, receive, answer)
            return
        except UnavailableError as error:
            away = PlainTextResponse(f"{error.message}\n", HTTPStatus.SERVICE_UNAVAILABLE)
            await away(scope, receive, answer)
            return
        admitted(admission)
        await self._serve(scope, _replayed(body, receive), answer, admission)

    async def _serve(self, scope: Scope, receive: Receive, send: Send, admission: Admission) -> None:
        """Serve an admitted request; a stream ends with the session in which it began, a page is given whole."""
        is_stream = False

        async def while_open(message: Message) -> None:
            nonlocal is_stream
            if message["type"] == "http.response.start":
                is_stream = Headers(raw=message["headers"]).get("content-type", "").startswith(_STREAM)
            elif is_stream and not self._gate.is_open(admission):
                raise _SessionEndedError
            await send(message)

        try:
            await self._app(scope, receive, while_open)
        except _SessionEndedError:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


def _head(scope: MutableMapping[str, Any]) -> Head:
    target = scope.get("raw_path") or scope["path"].encode()
    if scope["query_string"]:
        target += b"?" + scope["query_string"]
    headers = tuple((name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in scope["headers"])
    return Head(scope["method"], target.decode("latin-1"), headers, 0)


def _refuse_role(scope: MutableMapping[str, Any], admission: Admission) -> None:
    needed = role_needed(scope["method"], scope["path"])
    if admission.role < needed:
        raise RefusedRequestError(HTTPStatus.FORBIDDEN, "role", f"this needs the role {needed.word}")


def _refuse_nul(scope: MutableMapping[str, Any]) -> None:
    """Refuse an address with a NUL: no command can have one, and PostgreSQL's texts have none."""
    if "\0" in scope["path"] or b"%00" in scope["query_string"] or b"\0" in scope["query_string"]:
        raise RefusedRequestError(HTTPStatus.BAD_REQUEST, "nul", "the address contains a NUL character")


async def _body(scope: MutableMapping[str, Any], receive: Receive) -> bytes:
    """Read the body of a change within bounds; other requests have none."""
    if scope["method"] != "POST":
        return b""
    if not any(name.lower() == _FROM_SCRIPT for name, _ in scope["headers"]):
        raise RefusedRequestError(
            HTTPStatus.FORBIDDEN, "foreign", "changes are accepted only from the console's own pages"
        )
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_S):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise RefusedRequestError(HTTPStatus.BAD_REQUEST, "not_whole", "the request body is incomplete")
                body += message.get("body", b"")
                if len(body) > LARGEST_BODY:
                    raise RefusedRequestError(
                        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                        "too_large",
                        f"a form must have at most {LARGEST_BODY} bytes",
                    )
                if not message.get("more_body"):
                    return bytes(body)
    except TimeoutError:
        raise RefusedRequestError(HTTPStatus.REQUEST_TIMEOUT, "too_slow", "the request body took too long") from None


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body once more, then the end of the connection."""
    is_replayed = False

    async def replayed() -> Message:
        nonlocal is_replayed
        if is_replayed:
            return await receive()
        is_replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed
