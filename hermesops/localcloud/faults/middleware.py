"""The middlewares that make faults strike: calls refused, answered wrongly, late or never, and silent requests cut."""

import asyncio
import contextlib
import functools
import re
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, TypedDict

from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hermesops.base.waiting import pause
from hermesops.localcloud.api.problem import Problem, locked, unauthorised
from hermesops.localcloud.faults.kinds import FaultKind
from hermesops.localcloud.faults.rules import Faults
from hermesops.localcloud.proxy.vendor_proxy import target_of
from hermesops.localcloud.server.listener import hang_up
from hermesops.localcloud.store.rows import FaultRow

_ACCEPTED = 202
_TITLES = {502: "Bad gateway", 503: "Service unavailable", 504: "Gateway time-out", 524: "A timeout occurred"}


_TOOLBOX = re.compile(r"/api/v1(?P<path>/machines/[^/]+/(toolbox/.*|exec))")
_TIMED_OUT = 524


class Call(TypedDict):
    """The call that a fault rule is compared with."""

    method: str
    path: str


def call_of(scope: Scope) -> Call:
    """The call of a request: its method, and its path below ``/api/v1``."""
    return {"method": scope["method"], "path": scope["path"].removeprefix("/api/v1")}


def edge_page(status: int) -> Response:
    """An error page of the vendor's edge: no JSON, and a header that names the sender.

    Source: Cloudflare's error pages; the vendor's public client logs content type and ``cf-ray`` because of them.
    """
    title = f"{status}: {_TITLES.get(status, 'Error')}"
    page = f"<!DOCTYPE html><html><head><title>{title}</title></head><body><h1>{title}</h1></body></html>"
    return HTMLResponse(page, status, {"cf-ray": f"{secrets.token_hex(8)}-HEL"})


class FaultMiddleware:
    """Wraps the API so that waiting faults strike whole calls.

    Args:
        names_of: Id, name and slug of a machine, by any of them.
    """

    def __init__(self, app: ASGIApp, faults: Faults, names_of: Callable[[str], tuple[str, ...]]) -> None:
        self._app = app
        self._faults = faults
        self._names_of = names_of

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or answer with a fault."""
        call = call_of(scope)
        parts = call["path"].split("/")
        is_of_machine = len(parts) > 2 and parts[1] == "machines"  # noqa: PLR2004 - "", "machines", id
        machine = self._names_of(parts[2]) if is_of_machine and self._faults.waiting() else ()
        scope["localcloud"] = {"machine": machine} if machine else {}
        if refusal := self._refusal(machine, call):
            await refusal(scope, receive, send)
        else:
            await self._serve(scope, receive, send, call)

    def _refusal(self, machine: Collection[str], call: Call) -> Response | None:
        """The answer of a fault that refuses the call."""
        for kind, response in _REFUSALS.items():
            if kind is FaultKind.BUSY and (call["method"] == "GET" or not call["path"].startswith("/machines/")):
                continue
            if fault := self._faults.take(kind, machine, **call):
                return response(fault)
        return None

    async def _serve(self, scope: Scope, receive: Receive, send: Send, call: Call) -> None:
        """Carry the call out; its answer may be changed by a fault."""
        instead: Callable[[], Awaitable[None]] | None = None

        async def answer(message: Message) -> None:
            nonlocal instead
            if message["type"] == "http.response.start":
                # Asked now, because only the handler that makes a new machine knows its three names.
                machine = scope["localcloud"].get("machine", ())
                if slow := self._faults.take(FaultKind.SLOW_ANSWER, machine, **call):
                    await pause(slow.seconds)
                if self._faults.take(FaultKind.LOST_ANSWER, machine, **call):
                    instead = functools.partial(hang_up, scope)
                elif wrong := self._wrong_answer(machine, call, message["status"]):
                    instead = functools.partial(wrong, scope, receive, send)
            if instead is None:
                await send(message)

        await self._app(scope, receive, answer)
        if instead:
            await instead()

    def _wrong_answer(self, machine: Collection[str], call: Call, status: int) -> Response | None:
        """The wrong answer of a fault to a call that was carried out."""
        if fault := self._faults.take(FaultKind.EDGE_ERROR_BUT_DONE, machine, **call):
            return edge_page(fault.status)
        created = (call["method"], call["path"].rstrip("/"), status) == ("POST", "/machines", _ACCEPTED)
        if created and self._faults.take(FaultKind.CREATED_BUT_5XX, machine, **call):
            return Problem(500, "Internal server error").response()
        return None


def _rate_limited(fault: FaultRow) -> Response:
    answer = Problem(429, "Too many requests").response()
    answer.headers["retry-after"] = str(fault.seconds)
    return answer


_REFUSALS: Mapping[FaultKind, Callable[[FaultRow], Response]] = {
    FaultKind.KEY_REFUSED: lambda _: unauthorised().response(),
    FaultKind.RATE_LIMITED: _rate_limited,
    FaultKind.EDGE_ERROR: lambda fault: edge_page(fault.status),
    FaultKind.SERVER_ERROR: lambda fault: Problem(fault.status, "Internal server error").response(),
    FaultKind.BUSY: lambda _: locked().response(),
}


class SilenceLimit:
    """Wraps API and proxy: cuts a toolbox or proxy request that is silent for too long, while a fault orders it.

    The machine continues the request: it is not notified that the caller is gone.
    """

    def __init__(self, app: ASGIApp, faults: Faults) -> None:
        self._app = app
        self._faults = faults

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or cut it."""
        path, tick_s = _path_of(scope), self._faults.shortest_silence()
        if path is None or tick_s is None:
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(receive, send)
        serving = asyncio.ensure_future(self._app(scope, exchange.receive, exchange.send))
        silent_s = 0
        try:
            while not await exchange.ended(serving, tick_s):
                silent_s = 0 if exchange.has_moved else silent_s + tick_s
                machine = scope.get("localcloud", {}).get("machine", ())
                if silent_s and self._faults.take(
                    FaultKind.SILENCE_CUT, machine, method=scope["method"], path=path, silent_s=silent_s
                ):
                    break
            else:
                await serving
                return
        finally:
            serving.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await serving
        if exchange.is_answered:
            await hang_up(scope)
        else:
            await edge_page(_TIMED_OUT)(scope, receive, send)


class _Exchange:
    """The two directions of a request, and whether data moved in them."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._moved = asyncio.Event()
        self.has_moved = False
        self.is_answered = False

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._moved.set()
        return message

    async def send(self, message: Message) -> None:
        self.is_answered = True
        self._moved.set()
        await self._send(message)

    async def ended(self, serving: asyncio.Future[None], wait_s: float) -> bool:
        """Wait for the end, for data, or for a timeout; ``has_moved`` is true after data."""
        self._moved.clear()
        listening = asyncio.ensure_future(self._moved.wait())
        either: set[asyncio.Future[Any]] = {serving, listening}
        await asyncio.wait(either, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
        listening.cancel()
        self.has_moved = self._moved.is_set()
        return serving.done()


def _path_of(scope: Scope) -> str | None:
    """The path below the API of a toolbox call, empty for a proxied request; ``None`` for all others."""
    if target_of(dict(scope["headers"]).get(b"host", b"").decode("latin-1")):
        return ""
    called = _TOOLBOX.fullmatch(scope["path"])
    return called["path"] if called else None
