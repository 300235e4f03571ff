"""What stands before the vendor's API and proxy: on order, it cuts a request that is silent for too long.

It must not end what the request began: the machine never learns that nobody waits for it any more.
"""

import asyncio
import contextlib
import re
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from hermesops.localcloud.faults.kinds import FaultKind
from hermesops.localcloud.faults.middleware import edge_page
from hermesops.localcloud.faults.rules import Faults
from hermesops.localcloud.proxy.vendor_proxy import target_of
from hermesops.localcloud.server.listener import hang_up

_TOOLBOX = re.compile(r"/api/v1(?P<path>/machines/[^/]+/(toolbox/.*|exec))")
_TIMED_OUT = 524


class Edge:
    """Passes requests on and listens to them.

    Args:
        app: Serves them.
        faults: What waits.
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
                silent_s = 0 if exchange.was_heard else silent_s + tick_s
                concerned = scope.get("localcloud", {}).get("machine", ())
                if silent_s and self._faults.take(
                    FaultKind.SILENCE_CUT, concerned, method=scope["method"], path=path, silent_s=silent_s
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
    """The two directions of a request, and whether anything moved in them."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._heard = asyncio.Event()
        self.was_heard = False
        self.is_answered = False

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._heard.set()
        return message

    async def send(self, message: Message) -> None:
        self.is_answered = True
        self._heard.set()
        await self._send(message)

    async def ended(self, serving: asyncio.Future[None], wait_s: float) -> bool:
        """Wait for the end, for a sign of life or for so long; ``was_heard`` says whether there was one."""
        self._heard.clear()
        listening = asyncio.ensure_future(self._heard.wait())
        either: set[asyncio.Future[Any]] = {serving, listening}
        await asyncio.wait(either, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
        listening.cancel()
        self.was_heard = self._heard.is_set()
        return serving.done()


def _path_of(scope: Scope) -> str | None:
    """The path below the API of a toolbox call, nothing of a proxied request; ``None`` for all others."""
    if target_of(dict(scope["headers"]).get(b"host", b"").decode("latin-1")):
        return ""
    called = _TOOLBOX.fullmatch(scope["path"])
    return called["path"] if called else None
