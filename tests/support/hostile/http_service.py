"""An HTTP service on loopback that answers in one of the moods of ``hostile_moods``."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from tests.support.hostile.hostile_moods import END, MOODS

_LONGEST_S = 20.0
"""Seconds after which whoever answers in a thread gives up, so that no thread is left behind for long."""


def run_mood(mood: str, write: Callable[[bytes], object]) -> None:
    """Answer in one mood from a thread, to somebody who is not asynchronous; returns when nobody reads any more."""

    async def writes(data: bytes) -> None:
        await asyncio.to_thread(write, data)

    async def answer() -> None:
        async with asyncio.timeout(_LONGEST_S):
            await MOODS[mood](writes)

    with contextlib.suppress(OSError, TimeoutError):
        asyncio.run(answer())


@dataclass
class HostileService:
    """Where it listens, and how many bytes were taken from it."""

    port: int = 0
    taken: int = 0

    @property
    def url(self) -> str:
        """Its origin."""
        return f"http://127.0.0.1:{self.port}"


@contextlib.asynccontextmanager
async def hostile_service(mood: str) -> AsyncIterator[HostileService]:
    """A service on loopback that answers each request in one mood, until the context ends."""

    service, serving = HostileService(), set[asyncio.Task[None] | None]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())

        async def write(data: bytes) -> None:
            if data == END:
                writer.write_eof()
                return
            writer.write(data)
            await writer.drain()
            service.taken += len(data)

        # Cancelled, too: asyncio would log each connection that a test left open.
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await reader.readuntil(b"\r\n\r\n")
            await MOODS[mood](write)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    service.port = server.sockets[0].getsockname()[1]
    try:
        yield service
    finally:
        server.close()
        for task in filter(None, serving):
            task.cancel()
