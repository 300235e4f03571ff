"""Wraps the API so that ordered faults strike whole calls: refused, answered wrongly, late, or never answered."""

import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Protocol, TypedDict

from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hermesops.localcloud.api.problem import Problem, locked, unauthorised
from hermesops.localcloud.faults.kinds import FaultKind
from hermesops.localcloud.faults.rules import Faults
from hermesops.localcloud.server.listener import hang_up
from hermesops.localcloud.store.rows import FaultRow
from hermesops.waiting import pause

_ACCEPTED = 202
_TITLES = {502: "Bad gateway", 503: "Service unavailable", 504: "Gateway time-out", 524: "A timeout occurred"}


class Call(TypedDict):
    """What a call is known by to rules that are for some calls only."""

    method: str
    path: str


def call_of(scope: Scope) -> Call:
    """The call of a request: its method, and its path below ``/api/v1``."""
    return {"method": scope["method"], "path": scope["path"].removeprefix("/api/v1")}


class Directory(Protocol):
    """Knows what machines are called."""

    def names_of(self, machine_id: str) -> tuple[str, ...]:
        """Id, name and slug of a machine; only what was given when there is none."""


def edge_page(status: int) -> Response:
    """An error page as the vendor's edge shows it: no JSON, and a header that says who speaks.

    Source: Cloudflare's error pages; the vendor's public client logs content type and ``cf-ray`` because of them.
    """
    title = f"{status}: {_TITLES.get(status, 'Error')}"
    page = f"<!DOCTYPE html><html><head><title>{title}</title></head><body><h1>{title}</h1></body></html>"
    return HTMLResponse(page, status, {"cf-ray": f"{secrets.token_hex(8)}-HEL"})


class Misbehaviour:
    """Carries out what ``Faults`` has waiting.

    Args:
        app: The API, mounted at its prefix.
        faults: What waits.
        directory: What machines are called.
    """

    def __init__(self, app: ASGIApp, faults: Faults, directory: Directory) -> None:
        self._app = app
        self._faults = faults
        self._directory = directory

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, rightly or wrongly."""
        call = call_of(scope)
        machine = self._directory.names_of(_machine_in(call["path"])) if self._faults.waiting() else ()
        scope["localcloud"] = {"machine": machine} if machine else {}
        if refusal := self._refusal(machine, call):
            await refusal(scope, receive, send)
            return
        await _Exchange(scope, receive, send, self._faults).serve(self._app, call)

    def _refusal(self, machine: Collection[str], call: Call) -> Response | None:
        """What is answered instead of doing anything."""
        for kind, response in _REFUSALS.items():
            if kind is FaultKind.BUSY and (call["method"] == "GET" or not call["path"].startswith("/machines/")):
                continue
            if fault := self._faults.take(kind, machine, **call):
                return response(fault)
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


class _Exchange:
    """One call that is carried out, and whose answer may go wrong."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, faults: Faults) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._faults = faults
        self._instead: Callable[[], Awaitable[None]] | None = None

    async def serve(self, app: ASGIApp, call: Call) -> None:
        # A new machine is known by three names, and only who makes it knows them all: so ask when it answers.
        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                await self._begin(call, message["status"])
            if self._instead is None:
                await self._send(message)

        await app(self._scope, self._receive, answer)
        if self._instead:
            await self._instead()

    async def _begin(self, call: Call, status: int) -> None:
        concerned = self._scope["localcloud"].get("machine", ())
        if slow := self._faults.take(FaultKind.SLOW_ANSWER, concerned, **call):
            await pause(slow.seconds)
        if self._faults.take(FaultKind.LOST_ANSWER, concerned, **call):
            self._instead = self._hang_up
            return
        if fault := self._faults.take(FaultKind.EDGE_ERROR_BUT_DONE, concerned, **call):
            self._instead = self._answering(edge_page(fault.status))
            return
        created = (call["method"], call["path"].rstrip("/"), status) == ("POST", "/machines", _ACCEPTED)
        if created and self._faults.take(FaultKind.CREATED_BUT_5XX, concerned, **call):
            self._instead = self._answering(Problem(500, "Internal server error").response())

    async def _hang_up(self) -> None:
        await hang_up(self._scope)

    def _answering(self, response: Response) -> Callable[[], Awaitable[None]]:
        return lambda: response(self._scope, self._receive, self._send)


def _machine_in(path: str) -> str:
    return path.split("/")[2] if path.startswith("/machines/") else ""
