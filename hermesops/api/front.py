"""What every request meets first: its host, the size of its body; and what every answer has."""

import asyncio
import json
import secrets
from collections.abc import Mapping
from http import HTTPStatus

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hermesops.api.problems import MEDIA_TYPE, body_of

LARGEST_BODY = 1 << 20
LARGEST_UPLOAD = 11 << 20
"""Bytes of the body of an upload: a file of ten megabytes, and what is around it."""

_BODY_S = 60.0
"""Seconds for a body."""

HEADERS = {
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-resource-policy": "same-origin",
}
"""Of each answer, unless the route has others."""


class _RefusedBodyError(Exception):
    def __init__(self, status: HTTPStatus, code: str, words: str) -> None:
        super().__init__(words)
        self.status = status
        self.code = code


class Front:
    """Names each request, bounds its body, and refuses it where it is for another host.

    Args:
        hosts: Names by which the application is asked: others are of pages that rebind theirs to this address.
        larger: Bytes of the bodies of paths that take larger ones; a path that ends with ``/`` has those below it.
    """

    def __init__(self, app: ASGIApp, hosts: frozenset[str], larger: Mapping[str, int]) -> None:
        self._app = app
        self._hosts = hosts
        self._larger = larger

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or one socket."""
        request_id = secrets.token_hex(8)
        scope.setdefault("state", {})["request_id"] = request_id
        headers = {name.lower(): value for name, value in scope["headers"]}
        is_ours = headers.get(b"host", b"").decode("latin-1").lower() in self._hosts
        if scope["type"] == "websocket":
            await (self._app(scope, receive, send) if is_ours else send({"type": "websocket.close", "code": 1008}))
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["x-request-id"] = request_id
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        if not is_ours:
            await _refuse(answer, HTTPStatus.MISDIRECTED_REQUEST, "another-host", "another host was asked", request_id)
            return
        largest = self._largest(scope["path"])
        try:
            body = await _body(receive, headers.get(b"content-length", b"0"), largest)
        except _RefusedBodyError as refused:
            await _refuse(answer, refused.status, refused.code, str(refused), request_id)
            return
        await self._app(scope, _replayed(body, receive), answer)

    def _largest(self, path: str) -> int:
        above = (size for prefix, size in self._larger.items() if prefix.endswith("/") and path.startswith(prefix))
        return self._larger.get(path) or next(above, LARGEST_BODY)


async def _body(receive: Receive, length: bytes, largest: int) -> bytes:
    """Read a request's body, within bounds: no route reads one that is larger than it may be."""
    too_large = _RefusedBodyError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large", f"a body has at most {largest >> 20} MB here"
    )
    if not length.isdigit() or int(length) > largest:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_S):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise _RefusedBodyError(HTTPStatus.BAD_REQUEST, "bad-request", "the body is not whole")
                body += message.get("body", b"")
                if len(body) > largest:
                    raise too_large
                if not message.get("more_body"):
                    return bytes(body)
    except TimeoutError:
        raise _RefusedBodyError(HTTPStatus.REQUEST_TIMEOUT, "too-slow", "the body took too long") from None


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body once more, then what follows: the end of the connection."""
    is_replayed = False

    async def replayed() -> Message:
        nonlocal is_replayed
        if is_replayed:
            return await receive()
        is_replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed


async def _refuse(send: Send, status: HTTPStatus, code: str, detail: str, request_id: str) -> None:
    body = json.dumps(body_of(status, code, detail, request_id)).encode()
    headers = [(b"content-type", MEDIA_TYPE.encode()), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status.value, "headers": headers})
    await send({"type": "http.response.body", "body": body})
