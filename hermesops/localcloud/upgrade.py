"""Connections that stop being HTTP: a WebSocket's handshake is passed on, and from then on bytes both ways.

It must not understand what it carries: frames, extensions and subprotocols are between the two ends.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

_HEAD_LIMIT = 64 * 1024
_PIECE = 64 * 1024


@dataclass(frozen=True)
class Handshake:
    """The request that asks for it.

    Attributes:
        headers: Names in lower case.
    """

    method: bytes
    target: bytes
    headers: tuple[tuple[bytes, bytes], ...]

    def header(self, name: bytes) -> str:
        """One header; empty when there is none."""
        return next((value for given, value in self.headers if given == name), b"").decode("latin-1")


Serve = Callable[[Handshake, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""Carries one connection to its end; it is closed afterwards."""


class ByteStream(Protocol):
    """The other side."""

    async def read(self, max_bytes: int) -> bytes:
        """What there is; nothing at the end."""

    async def write(self, buffer: bytes) -> None:
        """All of it."""


class _ServerState(Protocol):
    connections: set[object]


def protocol_for(serve: Serve) -> type[asyncio.Protocol]:
    """What uvicorn hands connections to that ask for a WebSocket, instead of an implementation of WebSockets."""

    class Upgraded(asyncio.StreamReaderProtocol):
        def __init__(self, config: object, server_state: _ServerState, app_state: object) -> None:  # noqa: ARG002 - uvicorn's signature
            super().__init__(asyncio.StreamReader(limit=_HEAD_LIMIT), self._run)
            self._connections = server_state.connections
            self._open: asyncio.BaseTransport | None = None

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self._open = transport
            self._connections.add(self)
            super().connection_made(transport)

        def connection_lost(self, exc: Exception | None) -> None:
            self._connections.discard(self)
            super().connection_lost(exc)

        def shutdown(self) -> None:
            """The server ends."""
            if self._open is not None:
                self._open.close()

        async def _run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await serve(_parsed(await reader.readuntil(b"\r\n\r\n")), reader, writer)
            writer.transport.abort() if reader.exception() else writer.close()

    return Upgraded


def _parsed(head: bytes) -> Handshake:
    first, *lines = head.split(b"\r\n")
    method, target, _ = first.split(b" ", 2)
    pairs = (line.split(b": ", 1) for line in lines if line)
    return Handshake(method, target, tuple((name, value) for name, value in pairs))


async def splice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, other: ByteStream) -> None:
    """Copy both ways until either side has ended: half a WebSocket is of no use to anybody."""

    async def out() -> None:
        while piece := await reader.read(_PIECE):
            await other.write(piece)

    async def back() -> None:
        while piece := await other.read(_PIECE):
            writer.write(piece)
            await writer.drain()

    tasks = {asyncio.ensure_future(out()), asyncio.ensure_future(back())}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
