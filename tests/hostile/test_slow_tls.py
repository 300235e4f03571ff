"""Whoever is reached over TLS and never ends its handshake: each reader of ours ends by itself, and says so."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from hermesops.agents.backup.store.object_store import ObjectStore
from hermesops.agents.backup.store.repository import Bucket
from hermesops.agents.health.prometheus import Prometheus
from hermesops.agents.rollout.watch.webhooks import ask_service
from hermesops.base.network.aws_client import call
from hermesops.errors import HermesError
from hermesops.model.ids import InstanceId
from hermesops.programs.node.system import https, openssl
from hermesops.programs.node.system.https import download
from hermesops.vendor.channel.agent import AgentApi
from hermesops.vendor.justavps import Client, Machine, ProxyClient
from hermesops.wire.errors import NotReadyError
from tests.support.fakes.credentials import authority_in, credential_of
from tests.support.hostile.tokens import NoTokens

LIMIT_S = 1.0
ENDS_S = 20.0
"""Seconds after which a reader has not ended: many times what it may take on a busy computer."""

_EVERY_S = 0.05
_RECORD = b"\x16\x03\x03\x40\x00"
"""The head of a handshake record of 16 KiB, which never comes whole. Source: RFC 8446, section 5.1."""

_WARNING = b"\x15\x03\x03\x00\x02\x01\x5a"
"""A warning that is to be passed over: ``user_canceled``. Source: RFC 8446, section 6.1."""


def _nothing() -> Iterator[bytes]:
    while True:
        yield b""


def _drips() -> Iterator[bytes]:
    yield _RECORD
    while True:
        yield b"\x02"


def _warnings() -> Iterator[bytes]:
    while True:
        yield _WARNING


def _plain() -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\n"
    while True:
        yield b"x"


WAYS = {"nothing": _nothing, "drips": _drips, "warnings": _warnings, "no TLS": _plain}


@contextlib.asynccontextmanager
async def slow(way: Callable[[], Iterator[bytes]]) -> AsyncIterator[str]:
    """A port of ours on which no handshake ever ends."""

    serving: set[asyncio.Task[None]] = set()

    async def answer(writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            for piece in way():
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(_EVERY_S)  # noqa: TID251 - the other side

    def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.ensure_future(answer(writer)))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


Reader = Callable[[str, Path], Awaitable[str]]
READERS: dict[str, Reader] = {}


def _reader(function: Reader) -> Reader:
    READERS[function.__name__.strip("_")] = function
    return function


async def _problem(doing: Awaitable[object]) -> str:
    try:
        return f"it was believed: {await doing!r}"
    except HermesError as error:
        return error.message


@_reader
async def _vendor(url: str, _: Path) -> str:
    async with Client(url, "key") as client:
        return await _problem(client.list_machines())


@_reader
async def _agent(url: str, _: Path) -> str:
    machine = Machine.model_validate({"id": "m1", "slug": "m1", "urls": {"port_template": f"{url}/{{port}}"}})
    async with ProxyClient(url) as proxy:
        return str(await AgentApi(proxy, NoTokens()).health(machine, "key"))


@_reader
async def _prometheus(url: str, _: Path) -> str:
    at = datetime(2026, 1, 2, tzinfo=UTC)
    return await _problem(Prometheus(url, timeout_s=1).vitals([InstanceId("i-1")], since=at, until=at))


@_reader
async def _object_store(url: str, folder: Path) -> str:
    key_file = folder / "key"
    key_file.write_text("[default]\naws_access_key_id = a\naws_secret_access_key = b\n")
    key_file.chmod(0o600)
    store = ObjectStore(Bucket("backups", "us-east-1", url, url), key_file, is_local=True)
    return await _problem(call(ObjectStore.answers, store, within_s=LIMIT_S))


@_reader
async def _web_hook(url: str, _: Path) -> str:
    result, detail = await ask_service(url, {}, timeout_s=LIMIT_S)
    return f"{result.value}: {detail}"


@_reader
async def _release_on_a_machine(url: str, folder: Path) -> str:
    until = time.monotonic() + LIMIT_S
    return f"came: {await asyncio.to_thread(download, f'{url}/blob', folder / 'blob', size=1, until=until)}"


@_reader
async def _platform_of_a_machine(url: str, folder: Path) -> str:
    key = openssl.make()
    credential = credential_of(authority_in(folder), openssl.request(key).decode(), url=url)
    ask = partial(https.ask_platform, credential, key, "GET", "/v1", retry_s=0)
    try:
        return f"it was believed: {await asyncio.to_thread(ask)!r}"
    except NotReadyError as error:
        return str(error)


@pytest.fixture(autouse=True)
def _short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermesops.vendor.channel.agent._HEALTH_S", LIMIT_S)
    monkeypatch.setattr("hermesops.vendor.justavps.client._SLOW_READ_S", LIMIT_S)
    monkeypatch.setattr("hermesops.programs.node.system.https._PLATFORM_S", LIMIT_S)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("reader", READERS)
async def test_every_reader_ends_where_a_handshake_does_not(reader: str, way: str, tmp_path: Path) -> None:
    async with asyncio.timeout(ENDS_S), slow(WAYS[way]) as url:
        output = await READERS[reader](url, tmp_path)
    assert "believed" not in output
    assert output not in {"ok", "came: True"}
    assert output.isprintable()
    assert len(output) < 700
