"""Small services on loopback that a proxy can be tried with."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from hermesops.base.waiting import pause


@dataclass
class Heard:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Recorder:
    """Answers 201 to everything and remembers what it was asked, byte by byte."""

    port: int = 0
    heard: list[Heard] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        method, target, _ = first.split(" ")
        self.heard.append(Heard(method, target, headers, body))
        writer.write(b"HTTP/1.1 201 Created\r\nX-Service: yes\r\nContent-Length: 5\r\n\r\nheard")
        await writer.drain()
        writer.close()


@contextlib.asynccontextmanager
async def recorder() -> AsyncIterator[Recorder]:
    recorder = Recorder()
    server = await asyncio.start_server(recorder.serve, "127.0.0.1", 0)
    recorder.port = server.sockets[0].getsockname()[1]
    async with server:
        yield recorder


@contextlib.asynccontextmanager
async def event_source(*, count: int, every_s: float) -> AsyncIterator[int]:
    """A service that sends numbered events slowly; yields its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
        for number in range(count):
            writer.write(f"data: {number}\n\n".encode())
            await writer.drain()
            await pause(every_s)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
