"""The console as a process: uvicorn on a socket, and the operations that pages of this computer's console opened."""

import asyncio
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvicorn
from starlette.types import ASGIApp

from hermesops.console.application import application
from hermesops.console.front import PREFIX
from hermesops.console.operators.gate import LoopbackGate
from hermesops.console.parts import Console
from hermesops.observability.browser import LOOPBACK, BrowserGate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hermesops.app.container import Container

_AT_ONCE = 512
"""Connections: streams of browsers' tabs, and requests beside them."""

_KEEP_ALIVE_S = 30
_STOP_S = 1


class Server(uvicorn.Server):
    """uvicorn on a socket that is ours before it starts; signals are the process's."""

    def __init__(self, app: ASGIApp, listener: socket.socket) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http="h11",
                ws="none",
                lifespan="off",
                access_log=False,  # addresses have a token, or the code of a sign-in
                log_config=None,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=_KEEP_ALIVE_S,
                limit_concurrency=_AT_ONCE,
                timeout_graceful_shutdown=_STOP_S,  # streams of events have no end
            )
        )
        self._listener = listener

    @contextmanager
    def capture_signals(self) -> "Iterator[None]":
        """Leave signals to the command."""
        yield

    async def serve_until_cancelled(self) -> None:
        """Serve until cancelled, then give requests under way a second."""
        serving = asyncio.ensure_future(self.serve(sockets=[self._listener]))
        try:
            await asyncio.shield(serving)
        finally:
            self.should_exit = True
            await asyncio.gather(serving, return_exceptions=True)


def gate_of(listener: socket.socket) -> LoopbackGate:
    """A gate for the browser that opens the address of a listener on loopback."""
    return LoopbackGate(BrowserGate(f"{LOOPBACK}:{listener.getsockname()[1]}", PREFIX))


async def serve(container: "Container", listener: socket.socket, gate: LoopbackGate, named: str) -> None:
    """Serve pages until cancelled, then leave running operations to the workers. Closes the listener.

    Args:
        named: The name that commands have to give by ``--env``; empty where that is not needed.

    Raises:
        UsageError: The registry cannot be opened with these settings.
        UnavailableError: The registry does not answer.
    """
    await asyncio.to_thread(container.now)
    console = Console.of(container, named)
    try:
        await Server(application(console, gate), listener).serve_until_cancelled()
    finally:
        for name in await console.running.close():
            container.report(f"{name} is left to the workers")
