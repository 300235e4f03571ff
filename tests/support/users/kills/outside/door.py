"""The one address of the users' API for vendors: each connection goes to the first of its processes that takes it."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Sequence

from hermesops.base.waiting import cancel
from tests.support.real.relay import HOST

_AT_ONCE = 65_536


@contextlib.asynccontextmanager
async def door(listener: socket.socket, ports: Sequence[int]) -> AsyncIterator[None]:
    """Forward connections while the block lasts.

    Args:
        ports: Of the processes behind it.
    """

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            for port in ports:
                with contextlib.suppress(OSError):
                    back_reader, back_writer = await asyncio.open_connection(HOST, port)
                    await _both_ways(reader, writer, back_reader, back_writer)
                    break
        writer.close()

    server = await asyncio.start_server(converse, sock=listener)
    try:
        yield
    finally:
        server.close()


async def _both_ways(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    back_reader: asyncio.StreamReader,
    back_writer: asyncio.StreamWriter,
) -> None:
    ways = [asyncio.ensure_future(_copy(reader, back_writer)), asyncio.ensure_future(_copy(back_reader, writer))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel(*ways)
        back_writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_AT_ONCE):
        writer.write(data)
        await writer.drain()
