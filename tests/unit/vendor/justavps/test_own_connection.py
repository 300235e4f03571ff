"""Connections of one request each: interim answers without end are no answer, and nothing is used twice."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from hermesops.vendor.justavps.errors import LostAnswerError
from hermesops.vendor.justavps.proxy import Port, ProxyClient


@contextlib.asynccontextmanager
async def _flood(piece: bytes) -> AsyncIterator[tuple[str, list[int]]]:
    """A service that sends a piece again and again, at most 64 MiB; what it has sent."""
    sent = [0]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            while sent[0] < 64 << 20:
                writer.write(piece)
                await writer.drain()
                sent[0] += len(piece)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", sent
    finally:
        server.close()


async def test_interim_answers_without_end_are_no_answer() -> None:
    async with (
        _flood(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" * 100) as (url, sent),
        ProxyClient(url, alone=True) as proxy,
    ):
        with pytest.raises(LostAnswerError, match="before an answer"):
            await proxy.request(Port(url, "t"), "POST", "/", body={}, timeout_s=60)
    assert sent[0] < 16 << 20  # what buffers of the system hold


async def test_each_request_has_a_connection_of_its_own() -> None:
    peers = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peers.add(writer.get_extra_info("peername"))
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                assert b"Connection: close" in head
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
                await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with ProxyClient(url, alone=True) as proxy:
            for _ in range(3):
                assert (await proxy.request(Port(url, "t"), "GET", "/")).body == b"{}"
    assert len(peers) == 3


async def test_what_is_refused_at_the_last_moment_is_not_sent() -> None:
    received = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.set_result(await reader.read())
        writer.close()

    calls: list[str] = []

    def before_send() -> None:
        calls.append("called")
        raise InterruptedError

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with ProxyClient(url, alone=True) as proxy:
            with pytest.raises(InterruptedError):
                async with proxy.stream(Port(url, "t"), "POST", "/", body={"a": 1}, before_send=before_send):
                    pytest.fail("it was sent")
        async with asyncio.timeout(20):
            assert await received == b"", "a connection was open: it was the last moment"
    assert calls == ["called"]
