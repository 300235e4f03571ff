"""Connections that stop being HTTP: forwards a WebSocket's handshake, then bytes both ways.

It must not understand what it carries: frames, extensions and subprotocols are between the two ends. Either end may be
hostile: heads are bounded in time and size, and a connection over which nothing gets on is dropped.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpcore
from uvicorn.server import ServerState

from hermesops.base.waiting import pause

LARGEST_HEAD = 64 * 1024
"""Bytes of a request's or an answer's head; browsers keep 4 KiB in a cookie and servers take 8 to 32 KiB."""

IDLE_S = 300.0
"""Seconds in which no byte is taken either way until a connection is dropped: as long as a machine's daemon waits.
WebSockets that mean to stay send a ping each 20 to 60 s."""

_LAST_BYTES_S = 5.0
"""Seconds for a peer to take what was written before the end."""

_PIECE = 64 * 1024
_END_OF_HEAD = b"\r\n\r\n"
_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


@dataclass(frozen=True)
class Handshake:
    """The request that asks for a WebSocket; names of headers are in lower case."""

    method: bytes
    target: bytes
    headers: tuple[tuple[bytes, bytes], ...]

    @property
    def head(self) -> bytes:
        """The request as it came."""
        lines = (b"%b: %b\r\n" % header for header in self.headers)
        return b"%b %b HTTP/1.1\r\n%b\r\n" % (self.method, self.target, b"".join(lines))

    def header(self, name: bytes) -> str:
        """The value of a header; empty if it is missing."""
        return next((value for key, value in self.headers if key == name), b"").decode("latin-1")


Serve = Callable[[Handshake, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""Carries one connection to its end; it is closed afterwards."""


class UnreadableHeadError(Exception):
    """The head of an answer ends early, or is too large."""


def protocol_for(serve: Serve) -> type[asyncio.Protocol]:
    """The protocol for connections that ask for a WebSocket, instead of uvicorn's implementations of WebSockets."""

    class Upgraded(asyncio.StreamReaderProtocol):
        def __init__(self, config: object, server_state: ServerState, app_state: object) -> None:  # noqa: ARG002 - uvicorn's signature
            super().__init__(asyncio.StreamReader(limit=LARGEST_HEAD), self._run)
            self._connections: set[Any] = server_state.connections
            self._open: asyncio.BaseTransport | None = None

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            self._open = transport
            self._connections.add(self)
            super().connection_made(transport)

        def connection_lost(self, exc: Exception | None) -> None:
            self._connections.discard(self)
            super().connection_lost(exc)

        def shutdown(self) -> None:
            """Close the connection, as the server ends."""
            if self._open is not None:
                self._open.close()

        async def _run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                    await serve(_parsed(await reader.readuntil(_END_OF_HEAD)), reader, writer)
            except asyncio.LimitOverrunError:
                writer.write(_TOO_LARGE)
            finally:
                await _close(writer)

    return Upgraded


def _parsed(head: bytes) -> Handshake:
    first, *lines = head.split(b"\r\n")
    method, target, _ = first.split(b" ", 2)
    pairs = (line.split(b": ", 1) for line in lines if line)
    return Handshake(method, target, tuple((name, value) for name, value in pairs))


async def _close(writer: asyncio.StreamWriter) -> None:
    """Close a connection, at once if its peer does not read: unsent bytes would keep it open for ever."""
    try:
        writer.close()
        async with asyncio.timeout(_LAST_BYTES_S):
            await writer.wait_closed()
    except (TimeoutError, OSError):
        pass
    finally:
        writer.transport.abort()


async def read_answer(other: httpcore.AsyncNetworkStream) -> bytes:
    """Read the answer to a handshake: its head, and any bytes after it. The caller limits the time.

    Raises:
        UnreadableHeadError: It hung up before the head's end, or that is further than ``LARGEST_HEAD``.
    """
    answer = b""
    while _END_OF_HEAD not in answer[:LARGEST_HEAD]:
        piece = await other.read(_PIECE)
        if not piece or len(answer) >= LARGEST_HEAD:
            raise UnreadableHeadError
        answer += piece
    return answer


async def splice(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, other: httpcore.AsyncNetworkStream
) -> None:
    """Copy both ways until either side has ended, or nothing has gone either way for ``IDLE_S``.

    Half a WebSocket is of no use to anybody, so a side that closes its half ends both.
    """
    clock = asyncio.get_running_loop().time
    moved_at = clock()

    async def write_back(piece: bytes) -> None:
        writer.write(piece)
        await writer.drain()

    async def carry(read: Callable[[int], Awaitable[bytes]], write: Callable[[bytes], Awaitable[None]]) -> None:
        nonlocal moved_at
        while piece := await read(_PIECE):
            await write(piece)
            moved_at = clock()

    async def fall_idle() -> None:
        while (left := moved_at + IDLE_S - clock()) > 0:
            await pause(left)

    work = (carry(reader.read, other.write), carry(other.read, write_back), fall_idle())
    tasks = {asyncio.ensure_future(coroutine) for coroutine in work}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
