"""An HTTP service on loopback that answers in one of the moods of ``hostile_moods``.

``python -m tests.support.hostile.http_service`` serves all of them, until its input ends: see ``HostileProcess``.
"""

import asyncio
import contextlib
import gc
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field

from tests.support.hostile.agents.hostile_moods import END, MOODS

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
    """Where it listens, how many bytes were taken from it, and whom it answers."""

    port: int = 0
    taken: int = 0
    serving: set[asyncio.Task[None] | None] = field(default_factory=set)

    @property
    def url(self) -> str:
        """Its origin."""
        return f"http://127.0.0.1:{self.port}"

    def hang_up(self) -> None:
        """Answer nobody any further who has asked until now."""
        for task in filter(None, self.serving):
            task.cancel()


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Keep finalizers of other tests' garbage from where a parser is as deep as Python goes: they would fail there."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextlib.asynccontextmanager
async def hostile_service(mood: str) -> AsyncIterator[HostileService]:
    """A service on loopback that answers each request in one mood, until the context ends."""

    service = HostileService()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        service.serving.add(asyncio.current_task())

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
        with _uncollected() if mood.startswith("deep") else contextlib.nullcontext():
            yield service
    finally:
        server.close()
        service.hang_up()


class HostileProcess:
    """All moods in a process of its own: what floods there takes no time from the interpreter that is measured.

    Args:
        ports: Where each mood is served.
    """

    def __init__(self, process: subprocess.Popen[str], ports: dict[str, int]) -> None:
        self._process = process
        self._ports = ports

    def url(self, mood: str) -> str:
        """The origin of a service in that mood."""
        return f"http://127.0.0.1:{self._ports[mood]}"

    def end(self, mood: str) -> int:
        """Hang up on those who asked a service; returns how many bytes were taken from it."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{mood}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


@contextlib.contextmanager
def hostile_process() -> Iterator[HostileProcess]:
    """The process, until the context ends."""
    words = [sys.executable, "-m", __name__]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        yield HostileProcess(process, json.loads(process.stdout.readline()))
        assert process.stdin
        process.stdin.close()


async def _serve_all() -> None:
    async with contextlib.AsyncExitStack() as stack:
        services = {mood: await stack.enter_async_context(hostile_service(mood)) for mood in MOODS}
        print(json.dumps({mood: service.port for mood, service in services.items()}), flush=True)  # noqa: T201 - told
        while mood := (await asyncio.to_thread(sys.stdin.readline)).strip():
            services[mood].hang_up()
            print(services[mood].taken, flush=True)  # noqa: T201 - as above


if __name__ == "__main__":
    asyncio.run(_serve_all())
