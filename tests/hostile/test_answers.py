"""Whatever answers over HTTP: each reader of ours ends by itself, takes no more than its limit, raises our errors."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from hermesops.errors import HermesError
from hermesops.vendor.channel.agent import AgentApi
from hermesops.vendor.justavps import Client, Execution, Machine, Port, ProxyClient
from tests.support.hostile.agents.hostile_moods import MOODS
from tests.support.hostile.http_service import HostileService, hostile_service
from tests.support.hostile.tokens import NoTokens

LIMIT_S = 0.5
ENDS_S = 60.0
"""Seconds after which a reader has not ended: many times what it may take on a busy computer."""

MOST = 96 << 20
"""Bytes that may be taken of any answer here: three tries of the 16 MiB that a call reads, and what buffers hold."""

Reader = Callable[[HostileService, Path], Awaitable[object]]
READERS: dict[str, Reader] = {}


def _machine(service: HostileService) -> Machine:
    return Machine.model_validate({"id": "m1", "slug": "m1", "urls": {"port_template": f"{service.url}/{{port}}"}})


def _reader(function: Reader) -> Reader:
    READERS[function.__name__.strip("_")] = function
    return function


async def _all_of(pieces: AsyncIterator[object]) -> None:
    async for _ in pieces:
        pass


@_reader
async def _health(service: HostileService, _: Path) -> object:
    async with ProxyClient(service.url) as proxy:
        return await AgentApi(proxy, NoTokens()).health(_machine(service), "key")


@_reader
async def _opens(service: HostileService, _: Path) -> object:
    async with ProxyClient(service.url) as proxy:
        return await AgentApi(proxy, NoTokens()).opens(_machine(service), "t")


@_reader
async def _chat(service: HostileService, _: Path) -> None:
    async with ProxyClient(service.url) as proxy:
        await _all_of(AgentApi(proxy, NoTokens()).chat(_machine(service), "key", "hello"))


@_reader
async def _proxy_post(service: HostileService, _: Path) -> object:
    async with ProxyClient(service.url) as proxy:
        return (await proxy.request(Port(service.url, "t"), "POST", "/", body={}, timeout_s=LIMIT_S)).json()


@_reader
async def _get_machine(service: HostileService, _: Path) -> object:
    async with Client(service.url, "key") as client:
        return await client.get_machine("m1")


@_reader
async def _list_images(service: HostileService, _: Path) -> object:
    async with Client(service.url, "key") as client:
        return await client.list_images()


@_reader
async def _stop_machine(service: HostileService, _: Path) -> None:
    async with Client(service.url, "key") as client:
        await client.stop_machine("m1")


@_reader
async def _execute(service: HostileService, _: Path) -> object:
    async with Client(service.url, "key") as client:
        return await client.toolbox.execute("m1", Execution("true", timeout_s=0))


@_reader
async def _execute_stream(service: HostileService, _: Path) -> None:
    async with Client(service.url, "key") as client:
        await _all_of(client.toolbox.stream("m1", Execution("true", timeout_s=0)))


@_reader
async def _download(service: HostileService, _: Path) -> object:
    async with Client(service.url, "key") as client:
        return await client.toolbox.download("m1", "/etc/hostname")


@_reader
async def _download_to(service: HostileService, folder: Path) -> None:
    async with Client(service.url, "key") as client:
        await client.toolbox.download_to("m1", "/etc/hostname", folder / "hostname")


@pytest.fixture(autouse=True)
def _short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermesops.vendor.channel.agent._HEALTH_S", LIMIT_S)
    monkeypatch.setattr("hermesops.vendor.channel.agent._TURN_S", LIMIT_S)
    monkeypatch.setattr("hermesops.vendor.channel.agent._WHOLE_TURN_S", LIMIT_S)
    monkeypatch.setattr("hermesops.vendor.justavps.client._SLOW_READ_S", LIMIT_S)
    monkeypatch.setattr("hermesops.vendor.justavps.toolbox._BEYOND_S", LIMIT_S)
    monkeypatch.setattr("hermesops.vendor.justavps.toolbox._FILE_S", LIMIT_S)
    monkeypatch.setattr("hermesops.vendor.justavps.toolbox._TRANSFER_S", LIMIT_S)
    monkeypatch.setattr("hermesops.vendor.justavps.toolbox._SLOWEST", 1 << 30)
    monkeypatch.setattr("hermesops.vendor.justavps.toolbox._LARGEST_OUTPUT", 1 << 20)
    monkeypatch.setattr("hermesops.vendor.justavps.toolbox._LARGEST_IN_MEMORY", 1 << 20)
    monkeypatch.setattr("hermesops.vendor.justavps.toolbox._LARGEST_FILE", 1 << 20)


@pytest.mark.turns(60)
@pytest.mark.parametrize("mood", MOODS)
async def test_every_reader_ends_within_its_limits(mood: str, tmp_path: Path) -> None:
    async def tried(reader: Reader) -> None:
        output = ""
        async with hostile_service(mood) as service:
            try:
                async with asyncio.timeout(ENDS_S):
                    await reader(service, tmp_path)
            except HermesError as error:
                output = error.message
            assert service.taken < MOST
        assert not output or output.isprintable()
        assert len(output) < 700

    results = await asyncio.gather(*map(tried, READERS.values()), return_exceptions=True)
    assert dict(zip(READERS, results, strict=True)) == dict.fromkeys(READERS)
