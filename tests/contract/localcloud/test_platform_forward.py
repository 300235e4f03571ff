"""The ways through a local world's server to the platform's services and back: bytes both ways, and bounds."""

import asyncio
import socket
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest

from hermesops.base.waiting import pause
from hermesops.errors import RefusedError
from hermesops.localcloud.drivers.interface import PLATFORM_SERVICES, SERVICE_PORTS, PlatformPort, PlatformService
from hermesops.localcloud.store.database import Store
from hermesops.localcloud.world.platform_forward import Bounds, Forward, opened
from hermesops.model.ids import MachineId
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


async def _answer(where: str, *, says: bool) -> bytes:
    """What comes back for one byte, or for none."""
    host, _, port = where.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        if says:
            writer.write(b"a")
            writer.write_eof()
        return await reader.read()
    except OSError:  # hung up on while it was being asked
        return b""
    finally:
        writer.close()


@asynccontextmanager
async def world(folder: Path, *, machine_address: IPv4Address = HOST) -> AsyncIterator[tuple[Path, Any]]:
    """A world whose only machine is m-1: its marker, and where it forwards; all its services are the same echo."""
    echo = await asyncio.start_server(_echo, str(HOST), 0)
    port = echo.sockets[0].getsockname()[1]

    def daemon_address(machine_id: MachineId) -> tuple[IPv4Address, int]:
        if machine_id != "m-1":
            raise RefusedError("there is no such machine")
        return machine_address, 7070

    driver: Any = part(gateway=HOST, daemon_address=daemon_address)
    marker, store = folder / "platform", Store(folder / "world.db")
    services = {service: PlatformPort(port, 0) for service in PlatformService}
    async with opened(driver, store, marker, port, services=services, vendor_api_port=0) as forwarded:
        yield marker, forwarded
    echo.close()
    store.close()


async def test_each_service_is_on_the_machine_that_the_world_remembers_and_on_no_other(tmp_path: Path) -> None:
    async with world(tmp_path) as (marker, forwarded):
        assert len(set(forwarded.services.values())) == len(PlatformService)
        for where in forwarded.services.values():
            marker.unlink(missing_ok=True)
            assert await _answer(where, says=False) == b""
            marker.write_text("m-2")
            assert await _answer(where, says=False) == b""
            marker.write_text("m-1\n")
            assert await _answer(where, says=True) == b"aover"


async def test_the_ports_of_the_worlds_own_listeners_are_remembered_apart(tmp_path: Path) -> None:
    """Its users' page and its object store have listeners of its own, beside those that lead to the platform's."""
    async with world(tmp_path):
        pass
    with closing(sqlite3.connect(tmp_path / "world.db")) as database:
        keys = {key for (key,) in database.execute("SELECT key FROM settings")}
    assert len(keys) == len(PlatformService) + 1
    assert {key.partition("_")[0] for key in keys} == {"forward"}


async def test_the_platforms_machine_reaches_the_vendors_api(tmp_path: Path) -> None:
    async with world(tmp_path) as (marker, forwarded):
        assert await _answer(forwarded.vendor_api, says=False) == b"", "nobody is the platform's machine yet"
        marker.write_text("m-1")
        assert await _answer(forwarded.vendor_api, says=True) == b"aover"


async def test_no_other_machine_reaches_the_vendors_api(tmp_path: Path) -> None:
    async with world(tmp_path, machine_address=IPv4Address("127.0.0.9")) as (marker, forwarded):
        marker.write_text("m-1")
        assert await _answer(forwarded.vendor_api, says=True) == b""


def test_machines_may_reach_every_port_at_which_a_service_is_forwarded() -> None:
    offered = {port.on_gateway for port in PLATFORM_SERVICES.values() if port.for_machines}
    assert offered < set(SERVICE_PORTS)
    assert PLATFORM_SERVICES[PlatformService.OBJECT_STORE_IAM].on_gateway not in SERVICE_PORTS
    assert len(set(SERVICE_PORTS)) == len(SERVICE_PORTS) == 12
