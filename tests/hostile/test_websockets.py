"""WebSockets through the local world's proxy whose ends are hostile: they cost their own machine alone."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from http import HTTPStatus
from pathlib import Path
from types import SimpleNamespace

import pytest

from hermesops.base.waiting import Pending, pause, until
from hermesops.localcloud.proxy import upgrade, vendor_proxy
from hermesops.localcloud.server import listener
from tests.support.fakes.machines.driver import LOOPBACK, PretendDriver, pretended
from tests.support.hostile.http_service import hostile_service
from tests.support.worlds.local.local_server import Json, LocalCloud, serving

SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
ENDS_S = 15.0

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[None, None, None]]


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncIterator[LocalCloud]:
    async with pretended() as driver, serving(tmp_path / "world", driver) as running:
        yield running


@pytest.fixture
async def echo() -> AsyncIterator[int]:
    """The port of a service that switches, and says everything back."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SWITCHED)
        while piece := await reader.read(65536):
            writer.write(piece)

    async with listening(talk) as port:
        yield port


@contextlib.asynccontextmanager
async def listening(serve: Serve) -> AsyncIterator[int]:
    """A service on loopback, and its port."""

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await reader.readuntil(b"\r\n\r\n")
            await serve(reader, writer)
        writer.close()

    server = await asyncio.start_server(served, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


class Door:
    """Opens connections to one machine's ports with a token of its own."""

    def __init__(self, cloud: LocalCloud, machine: Json, token: str) -> None:
        self.cloud = cloud
        self._slug, self._token = machine["slug"], token

    @classmethod
    async def to(cls, cloud: LocalCloud, name: str) -> "Door":
        machine = await cloud.ready(name)
        return cls(cloud, machine, str((await cloud.token(machine))["token"]))

    async def knock(self, port: int, more: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Ask for a WebSocket."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.cloud.port)
        head = (
            f"GET / HTTP/1.1\r\nHost: {port}--{self._slug}.localhost\r\nX-Proxy-Token: {self._token}\r\n"
            "Upgrade: websocket\r\nConnection: Upgrade\r\n"
        )
        writer.write(head.encode() + more + b"\r\n")
        return reader, writer

    async def status(self, port: int, more: bytes = b"") -> int:
        """What a handshake is answered with; the connection is closed."""
        reader, writer = await self.knock(port, more)
        try:
            return await status_of(reader)
        finally:
            writer.close()


async def status_of(reader: asyncio.StreamReader) -> int:
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), ENDS_S)
    matched = re.match(rb"HTTP/1\.1 (\d+)", head)
    assert matched, head
    return int(matched[1])


async def ended(reader: asyncio.StreamReader) -> bytes:
    """Everything until the end, however it comes."""
    read = b""
    with contextlib.suppress(ConnectionResetError):
        async with asyncio.timeout(ENDS_S):
            while piece := await reader.read(65536):
                read += piece
    return read


async def says_back(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    writer.write(b"ping")
    return await asyncio.wait_for(reader.readexactly(4), ENDS_S) == b"ping"


@pytest.mark.parametrize(
    ("mood", "status"),
    [
        ("silent", 504),
        ("drips_head", 504),
        ("long_header", 502),
        ("many_headers", 502),
        ("half_closed_at_once", 502),
        ("hangs_up", 502),
    ],
)
async def test_a_service_that_finishes_no_handshake_is_given_up(
    cloud: LocalCloud, echo: int, mood: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if status == HTTPStatus.GATEWAY_TIMEOUT:  # the others end by themselves, however slow the computer is
        monkeypatch.setattr(vendor_proxy, "HANDSHAKE_S", 1.5)
    hostile, other = await Door.to(cloud, "hostile"), await Door.to(cloud, "other")
    async with hostile_service(mood) as service:
        asking = asyncio.ensure_future(hostile.status(service.port))
        assert await other.status(echo) == 101
        assert await asking == status
        assert service.taken < 32 << 20


async def test_a_daemon_that_drips_its_answer_is_given_up(cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vendor_proxy, "HANDSHAKE_S", 1.0)
    door = await Door.to(cloud, "hostile")
    async with hostile_service("drips_head") as service:
        monkeypatch.setattr(PretendDriver, "daemon_address", lambda *_: (LOOPBACK, service.port))
        assert await door.status(80) == 504


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nHost: "])
async def test_a_caller_that_finishes_no_head_is_dropped(
    cloud: LocalCloud, begun: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "_KEEP_ALIVE_S", 1.0)
    reader, writer = await asyncio.open_connection("127.0.0.1", cloud.port)
    writer.write(begun)

    async def drip() -> None:
        while begun:
            writer.write(b"x")
            await pause(0.05)

    dripping = asyncio.ensure_future(drip())
    assert await ended(reader) == b""
    dripping.cancel()
    writer.close()


async def test_a_second_head_has_its_time_too(cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "_KEEP_ALIVE_S", 1.0)
    reader, writer = await asyncio.open_connection("127.0.0.1", cloud.port)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\nGET")
    assert (await ended(reader)).startswith(b"HTTP/1.1 404")
    writer.close()


async def test_an_open_websocket_outlives_the_time_for_its_head(
    cloud: LocalCloud, echo: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "_KEEP_ALIVE_S", 0.5)
    reader, writer = await (await Door.to(cloud, "one")).knock(echo)
    assert await status_of(reader) == 101
    await pause(1.0)
    assert await says_back(reader, writer)
    writer.close()


@pytest.mark.parametrize("size", [60_000, 80_000, 400_000])
async def test_a_head_has_a_largest_size(cloud: LocalCloud, echo: int, size: int) -> None:
    door = await Door.to(cloud, "one")
    status = await door.status(echo, b"X-Long: " + b"x" * size + b"\r\n")
    assert status == 101 if size < upgrade.LARGEST_HEAD else status in {400, 431}
    assert await door.status(echo) == 101


async def test_a_head_that_is_too_large_and_came_whole_leaves_no_connection() -> None:
    """uvicorn bounds what is incomplete alone."""

    async def serve(*_: object) -> None:
        pytest.fail("it must not be served")

    state = SimpleNamespace(connections=set())
    protocol = upgrade.protocol_for(serve)
    server = await asyncio.get_running_loop().create_server(
        lambda: protocol(None, state, None),  # type: ignore[call-arg] # as uvicorn makes it
        "127.0.0.1",
        0,
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", server.sockets[0].getsockname()[1])
    writer.write(b"GET / HTTP/1.1\r\nX: " + b"x" * (upgrade.LARGEST_HEAD + 1) + b"\r\n\r\n")
    assert await status_of(reader) == 431
    assert await ended(reader) == b""
    writer.close()
    server.close()
    assert state.connections == set()


async def test_a_machine_has_so_many_websockets_and_the_others_theirs(
    cloud: LocalCloud, echo: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vendor_proxy, "MOST_UPGRADED", 3)
    greedy, other = await Door.to(cloud, "greedy"), await Door.to(cloud, "other")
    held = [await greedy.knock(echo) for _ in range(100)]
    answers = [await status_of(reader) for reader, _ in held]
    assert sorted(answers) == [101] * 3 + [503] * 97
    assert await other.status(echo) == 101
    for _, writer in held:
        writer.close()

    async def has_room() -> bool | Pending[bool]:
        status = await greedy.status(echo)
        return True if status == 101 else Pending(str(status))

    assert await until(has_room, what="a place", timeout_s=ENDS_S)


async def test_handshakes_under_way_count_as_websockets(cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vendor_proxy, "MOST_UPGRADED", 2)
    monkeypatch.setattr(vendor_proxy, "HANDSHAKE_S", 5.0)
    door = await Door.to(cloud, "greedy")
    async with hostile_service("silent") as service:
        waiting = [asyncio.ensure_future(door.status(service.port)) for _ in range(3)]
        assert sorted(await asyncio.gather(*waiting)) == [503, 504, 504]


async def test_a_half_that_closes_ends_both(cloud: LocalCloud, echo: int) -> None:
    door = await Door.to(cloud, "one")
    reader, writer = await door.knock(echo)
    assert await status_of(reader) == 101
    writer.write_eof()
    assert await ended(reader) == b""
    writer.close()

    async def close_half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SWITCHED)
        writer.write_eof()
        await reader.read()

    async with listening(close_half) as port:
        reader, writer = await door.knock(port)
        assert await status_of(reader) == 101
        assert await ended(reader) == b""
        writer.close()


async def test_one_over_which_nothing_goes_is_dropped(
    cloud: LocalCloud, echo: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upgrade, "IDLE_S", 1.0)
    reader, writer = await (await Door.to(cloud, "one")).knock(echo)
    assert await status_of(reader) == 101
    for _ in range(4):
        await pause(0.5)
        assert await says_back(reader, writer)
    assert await ended(reader) == b""
    writer.close()


async def test_a_caller_that_takes_nothing_is_dropped(cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upgrade, "IDLE_S", 1.0)
    monkeypatch.setattr(upgrade, "_LAST_BYTES_S", 0.5)
    gone = asyncio.Event()

    async def flood(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SWITCHED)
        try:
            while True:
                writer.write(bytes(1 << 16))
                await writer.drain()
        finally:
            gone.set()

    async with listening(flood) as port:
        _, writer = await (await Door.to(cloud, "one")).knock(port)
        # The reader's buffer fills, and asyncio stops reading the socket.
        await asyncio.wait_for(gone.wait(), ENDS_S)

        async def is_dropped() -> bool | Pending[bool]:
            writer.write(b"x")
            return True if writer.is_closing() else Pending("open")

        assert await until(is_dropped, what="the connection's end", timeout_s=ENDS_S)
