"""Forwards one HTTP exchange, streaming both ways, and closes the connection to the service when the caller has gone.

It must not buffer: an event has to arrive before the next one happens, and an upload may be larger than memory.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import httpcore
from starlette.types import Message, Receive, Scope, Send

from hermesops.localcloud.api.problem import Problem
from hermesops.localcloud.proxy.broker import AnswerLostError, MachineDownError, NothingListensError
from hermesops.localcloud.server.listener import hang_up

Headers = list[tuple[bytes, bytes]]
Ask = Callable[[Headers, AsyncIterator[bytes] | None], Awaitable[httpcore.Response]]
"""Sends the request with these headers and this body."""

_OF_ONE_HOP = frozenset(
    {b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer"}
    | {b"transfer-encoding", b"upgrade", b"host", b"expect"}
)


class _CallerGoneError(Exception):
    """The caller hung up in the middle of its request."""


@contextlib.contextmanager
def errors_as_problems() -> Iterator[None]:
    """Turn the broker's errors into answers of the API.

    Raises:
        Problem: 502 when nothing listens there, 503 when the machine cannot be reached, 504 when it took the
            request and never answered. A caller may repeat what got 503: nothing was handed over.
    """
    try:
        yield
    except NothingListensError as error:
        raise Problem(502, "nothing listens on that port of the machine") from error
    except MachineDownError as error:
        raise Problem(503, "the machine does not answer") from error
    except AnswerLostError as error:
        raise Problem(504, "the machine took the request and did not answer it") from error


async def forward(scope: Scope, receive: Receive, send: Send, ask: Ask, *, drop: frozenset[bytes]) -> None:
    """Forward the request of ``scope`` through ``ask`` and stream its answer back.

    Headers in ``drop`` stop here, besides those that are for one hop only.

    Raises:
        Problem: As ``errors_as_problems``.
    """
    body = _Body(receive)
    headers = [(name, value) for name, value in scope["headers"] if name not in drop and name not in _OF_ONE_HOP]
    names = {name for name, _ in scope["headers"]}
    if b"transfer-encoding" in names:
        headers.append((b"transfer-encoding", b"chunked"))
    has_body = b"transfer-encoding" in names or b"content-length" in names
    try:
        with errors_as_problems():
            response = await _unless_gone(ask(headers, body.pieces() if has_body else None), body, has_body=has_body)
    except _CallerGoneError:
        return
    if response is None:
        return
    try:
        await _unless_gone(_pass_back(response, send), body, has_body=False)
    except (httpcore.NetworkError, httpcore.ProtocolError):
        await hang_up(scope)  # half an answer is out; closing is the only way left to say that the rest is missing
    finally:
        await response.aclose()


async def _pass_back(response: httpcore.Response, send: Send) -> None:
    headers = [(name.lower(), value) for name, value in response.headers if name.lower() not in _OF_ONE_HOP]
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    async for piece in response.aiter_stream():
        if piece:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


class _Body:
    """The request's body, and the event that the caller has hung up."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._complete = asyncio.Event()

    async def pieces(self) -> AsyncIterator[bytes]:
        more = True
        while more:
            message: Message = await self._receive()
            if message["type"] == "http.disconnect":
                # Not one of httpcore's write errors: those make it wait for an answer that will not come.
                raise _CallerGoneError
            more = message.get("more_body", False)
            if piece := message.get("body", b""):
                yield piece
        self._complete.set()

    async def hung_up(self, *, has_body: bool) -> None:
        """Return when the caller has gone. Listens only once the body has been read: there is one ``receive``."""
        if has_body:
            await self._complete.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass


async def _unless_gone(
    work: Awaitable[httpcore.Response | None], body: _Body, *, has_body: bool
) -> httpcore.Response | None:
    """The result of ``work``, or ``None`` when the caller hung up first; then ``work`` is cancelled."""
    doing = asyncio.ensure_future(work)
    watching = asyncio.ensure_future(body.hung_up(has_body=has_body))
    try:
        await asyncio.wait({doing, watching}, return_when=asyncio.FIRST_COMPLETED)
        return await doing if doing.done() else None
    finally:
        for task in (doing, watching):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task
