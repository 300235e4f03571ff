"""The browser's only way to anything: an HTTP proxy to loopback that lists requests, and cuts streams of events."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

_PIECE = 1 << 16
_STREAMED = b"text/event-stream"
_EVENT = b"event: "
_OF_CHROMIUM = (".googleapis.com:443", ".google.com:443")


@dataclass
class CuttingProxy:
    """A proxy on loopback that forwards to loopback and refuses everything else.

    Attributes:
        url: Of the proxy.
        asked: Method and whole address of each request, those that were refused too.
        cut_after: Events of each stream that pass before the connection is cut, as if a network had gone; ``None`` for
            no cut.
        cuts: Streams that were cut.
        is_away: Whether every connection is cut at once.
        lost: Requests for addresses that end with this are lost on their way; empty for none.
        resumed: Values of ``Last-Event-ID``.
        held: Requests for addresses with this text wait until ``release``; empty for none.
    """

    url: str = ""
    asked: list[tuple[str, str]] = field(default_factory=list)
    cut_after: int | None = None
    cuts: int = 0
    is_away: bool = False
    resumed: list[str] = field(default_factory=list)
    held: str = ""
    lost: str = ""
    _released: asyncio.Event = field(default_factory=asyncio.Event)
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    def cut_all(self) -> None:
        """Cut every open connection, and each new one while ``is_away``."""
        for writer in tuple(self._open):
            writer.transport.abort()

    def release(self) -> None:
        """Let what is held go on."""
        self.held = ""
        self._released.set()

    def foreign(self) -> list[str]:
        """Addresses beyond this computer that a page asked for; Chromium asks its maker by itself."""
        return [url for _, url in self.asked if not _is_ours(url) and not url.endswith(_OF_CHROMIUM)]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one request."""
        self._open.add(writer)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                await self._carry(reader, writer)
        finally:
            self._open.discard(writer)
            writer.close()  # after what was written

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        request, *lines = head.rstrip("\r\n").split("\r\n")
        method, target, _ = request.split(" ")
        self.asked.append((method, target))
        address = urlsplit(target)
        if self.held and self.held in target:
            await self._released.wait()
        is_lost = bool(self.lost) and target.endswith(self.lost)
        if self.is_away or is_lost or not _is_ours(target):
            writer.transport.abort()
            return
        self.resumed += [line.partition(": ")[2] for line in lines if line.lower().startswith("last-event-id:")]
        kept = [line for line in lines if not line.lower().startswith(("connection:", "proxy-connection:"))]
        theirs, ours = await asyncio.open_connection("127.0.0.1", address.port or 80)
        try:
            path = address.path + (f"?{address.query}" if address.query else "")
            ours.write("\r\n".join([f"{method} {path} HTTP/1.1", *kept, "Connection: close", "", ""]).encode("latin-1"))
            length = next((line for line in kept if line.lower().startswith("content-length:")), "x: 0")
            sending = asyncio.ensure_future(_pump(reader, ours, int(length.partition(":")[2])))
            await self._answer(theirs, writer)
            sending.cancel()
        finally:
            ours.transport.abort()

    async def _answer(self, theirs: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await theirs.readuntil(b"\r\n\r\n")
        writer.write(head)
        left = self.cut_after if _STREAMED in head else None
        while line := await (theirs.read(_PIECE) if left is None else theirs.readline()):
            if left is not None and line.startswith(_EVENT):
                if left == 0:  # its id has passed, and nothing of it: a browser must not count it
                    self.cuts += 1
                    return
                left -= 1
            writer.write(line)
            await writer.drain()


def _is_ours(url: str) -> bool:
    return urlsplit(url).hostname in {"localhost", "127.0.0.1"}


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, length: int) -> None:
    while length > 0 and (piece := await reader.read(min(length, _PIECE))):
        writer.write(piece)
        await writer.drain()
        length -= len(piece)


@asynccontextmanager
async def cutting_proxy() -> AsyncIterator[CuttingProxy]:
    """A proxy for one browser."""
    proxy = CuttingProxy()
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, limit=1 << 20)
    try:
        port = server.sockets[0].getsockname()[1]
        proxy.url = f"http://127.0.0.1:{port}"
        yield proxy
    finally:
        server.close()
        proxy.cut_all()
