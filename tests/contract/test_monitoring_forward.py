"""The way through a local world's server to the platform's monitoring: bytes both ways, and bounds."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest

from hermesops.errors import RefusedError
from hermesops.localcloud.store.database import Store
from hermesops.localcloud.world import monitoring_forward
from hermesops.localcloud.world.monitoring_forward import Bounds, Forward, opened
from hermesops.model.ids import MachineId
from hermesops.waiting import pause
from tests.support.fakes.parts import part

HOST = IPv4Address("127.0.0.1")


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(65536):
        writer.write(piece)
        await writer.drain()
    writer.write(b"over")
    writer.close()


@asynccontextmanager
async def forwarded(*, there: bool = True, bounds: Bounds | None = None) -> AsyncIterator[tuple[str, int]]:
    machine = await asyncio.start_server(_echo, str(HOST), 0)
    port = machine.sockets[0].getsockname()[1]
    listener = socket.create_server((str(HOST), 0))
    listener.setblocking(False)
    serving = asyncio.create_task(Forward(lambda: HOST if there else None, port, bounds).serve(listener))
    try:
        yield listener.getsockname()
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        listener.close()
        machine.close()


async def test_bytes_go_both_ways_and_an_end_does_too() -> None:
    async with forwarded() as where:
        reader, writer = await asyncio.open_connection(*where)
        data = b"x" * 1_000_000
        writer.write(data)
        assert await reader.readexactly(len(data)) == data
        writer.write_eof()
        assert await reader.read() == b"over"
        writer.close()


async def test_without_a_machine_a_connection_ends_at_once() -> None:
    async with forwarded(there=False) as where:
        reader, writer = await asyncio.open_connection(*where)
        assert await reader.read() == b""
        writer.close()


async def test_one_address_has_so_many_connections_and_one_that_ends_makes_room() -> None:
    async with forwarded(bounds=Bounds(per_address=2)) as where:
        held = [await asyncio.open_connection(*where) for _ in range(2)]
        for reader, writer in held:
            writer.write(b"a")
            assert await reader.readexactly(1) == b"a"
        reader, writer = await asyncio.open_connection(*where)
        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
        writer.close()
        held[0][1].close()
        await pause(0.1)  # the server has to see it
        reader, writer = await asyncio.open_connection(*where)
        writer.write(b"a")
        assert await reader.readexactly(1) == b"a"
        writer.close()
        held[1][1].close()


async def test_it_goes_to_the_machine_that_the_world_remembers_and_to_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = await asyncio.start_server(_echo, str(HOST), 0)
    monkeypatch.setattr(monitoring_forward, "PORT_ON_MACHINE", machine.sockets[0].getsockname()[1])

    def daemon_address(machine_id: MachineId) -> tuple[IPv4Address, int]:
        if machine_id != "m-1":
            raise RefusedError("there is no such machine")
        return HOST, 7070

    driver: Any = part(gateway=HOST, daemon_address=daemon_address)
    marker, store = tmp_path / "monitoring", Store(tmp_path / "world.db")
    async with opened(driver, store, marker, 0) as url:
        host, _, port = url.removeprefix("https://").rpartition(":")
        for text, answer in ((None, b""), ("m-2", b""), ("m-1\n", b"aover")):
            if text:
                marker.write_text(text)
            reader, writer = await asyncio.open_connection(host, int(port))
            if answer:
                writer.write(b"a")
                writer.write_eof()
            assert await reader.read() == answer
            writer.close()
    machine.close()
    store.close()
