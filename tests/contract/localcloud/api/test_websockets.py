"""WebSockets through the vendor's proxy, by a real client, to a real server on a machine's loopback."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from tests.support.fakes.machines.driver import PretendDriver
from tests.support.worlds.local.local_server import LocalCloud, serving

Json = dict[str, Any]
CHAT = Subprotocol("chat")


@dataclass
class Echo:
    """A service that says everything back, and remembers how it was asked."""

    port: int = 0
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def talk(self, connection: ServerConnection) -> None:
        assert connection.request is not None
        headers = {name.lower(): value for name, value in connection.request.headers.raw_items()}
        self.asked.append((connection.request.path, headers))
        with contextlib.suppress(ConnectionClosed):
            async for message in connection:
                await connection.send(message)
        self.ended.set()


@pytest.fixture
async def echo() -> AsyncIterator[Echo]:
    echo = Echo()
    server: Server
    async with serve(echo.talk, "127.0.0.1", 0, subprotocols=[CHAT]) as server:
        echo.port = next(iter(server.sockets)).getsockname()[1]
        yield echo


def through(cloud: LocalCloud, machine: Json, port: int, path: str = "/", **headers: str) -> connect:
    """A client that cannot resolve names under localhost."""
    url = f"ws://{port}--{machine['slug']}.localhost:{cloud.port}{path}"
    return connect(
        url,
        host="127.0.0.1",
        port=cloud.port,
        additional_headers=headers,
        subprotocols=[CHAT],
        proxy=None,
    )


async def refused_with(client: connect) -> int:
    with pytest.raises(InvalidStatus) as refusal:
        async with client:
            pass
    return int(refusal.value.response.status_code)


async def test_text_and_bytes_go_both_ways_with_the_token_in_a_header(cloud: LocalCloud, echo: Echo) -> None:
    machine = await cloud.ready()
    token = str((await cloud.token(machine))["token"])
    connection: ClientConnection
    async with through(cloud, machine, echo.port, "/live?a=b", **{"X-Proxy-Token": token, "X-App": "1"}) as connection:
        assert connection.subprotocol == "chat"
        for message in ("words", b"\x00\xff", "x" * 500_000):
            await connection.send(message)
            assert await connection.recv() == message
    await asyncio.wait_for(echo.ended.wait(), 5)
    ((path, headers),) = echo.asked
    assert path == "/live?a=b"
    assert headers["x-app"] == "1"
    assert token not in str(echo.asked)


async def test_the_query_token_is_good_too_and_reaches_the_service(cloud: LocalCloud, echo: Echo) -> None:
    machine = await cloud.ready()
    token = (await cloud.token(machine))["token"]
    async with through(cloud, machine, echo.port, f"/?__proxy_token={token}") as connection:
        await connection.send("x")
        assert await connection.recv() == "x"
    assert token in echo.asked[0][0]


async def test_nobody_gets_through_without_a_token_of_that_machine(cloud: LocalCloud, echo: Echo) -> None:
    machine, other = await cloud.ready("one"), await cloud.ready("two")
    token = str((await cloud.token(machine))["token"])
    assert await refused_with(through(cloud, machine, echo.port)) == 401
    assert await refused_with(through(cloud, machine, echo.port, **{"X-Proxy-Token": "pt_made-up"})) == 401
    assert await refused_with(through(cloud, other, echo.port, **{"X-Proxy-Token": token})) == 403
    assert await refused_with(through(cloud, {"slug": "m-0"}, echo.port, **{"X-Proxy-Token": token})) == 404
    await cloud.fault("proxy-unauthorised", machine="one", status=403)
    assert await refused_with(through(cloud, machine, echo.port, **{"X-Proxy-Token": token})) == 403
    assert echo.asked == []


async def test_nothing_listening_is_502_and_a_stopped_machine_503(cloud: LocalCloud) -> None:
    machine = await cloud.ready()
    token = {"X-Proxy-Token": str((await cloud.token(machine))["token"])}
    assert await refused_with(through(cloud, machine, 1, **token)) == 502
    await cloud.http.post(f"/api/v1/machines/{machine['id']}/stop")
    await cloud.becomes(machine["id"], "stopped")
    assert await refused_with(through(cloud, machine, 1, **token)) == 503


async def test_a_refusal_of_the_service_itself_comes_through(cloud: LocalCloud) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 418 Teapot\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    machine = await cloud.ready()
    token = {"X-Proxy-Token": str((await cloud.token(machine))["token"])}
    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        assert await refused_with(through(cloud, machine, server.sockets[0].getsockname()[1], **token)) == 418


async def test_an_end_on_one_side_is_one_on_the_other(cloud: LocalCloud, driver: PretendDriver, echo: Echo) -> None:
    machine = await cloud.ready()
    token = {"X-Proxy-Token": str((await cloud.token(machine))["token"])}
    async with through(cloud, machine, echo.port, **token) as connection:
        await driver.power_itself_off(str(machine["id"]))
        with pytest.raises(ConnectionClosed):
            await asyncio.wait_for(connection.recv(), 10)


async def test_an_open_one_does_not_hold_up_the_servers_end(tmp_path: Path, driver: PretendDriver, echo: Echo) -> None:
    async with contextlib.AsyncExitStack() as clients:
        async with serving(tmp_path / "world", driver) as cloud:
            machine = await cloud.ready()
            token = {"X-Proxy-Token": str((await cloud.token(machine))["token"])}
            connection = await clients.enter_async_context(through(cloud, machine, echo.port, **token))
        with pytest.raises(ConnectionClosed):
            await asyncio.wait_for(connection.recv(), 10)
