"""The relay over real TLS on loopback, agents behind it that answer as a test says, and callers of it."""

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import h11

from hermesops.access.pki.authority import Authority, fresh_key
from hermesops.access.pki.callers import Admitted, Callers
from hermesops.access.pki.own_certificate import OwnCertificate
from hermesops.agents.relay.places import Places
from hermesops.agents.relay.serve import bounds_of
from hermesops.agents.relay.service import Relay
from hermesops.model.access.token import PLATFORM, ProxyToken
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.ids import MachineId
from hermesops.programs.node.system import openssl
from hermesops.serving.listener import Bounds, MutualTlsListener
from hermesops.store.registry import Registry
from hermesops.vendor.justavps.proxy import ProxyClient
from hermesops.wire.tls_key import present
from tests.support.real.stores.registries import TurnedClock, placed, registry_at

HOST = "127.0.0.1"
LIFE = timedelta(days=7)
TOKEN = "canary-proxy-token-of-"  # noqa: S105 - the beginning of made-up ones


@dataclass(frozen=True)
class Said:
    """An answer of the relay.

    Attributes:
        whole: Whether its end came.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    whole: bool

    @property
    def json(self) -> Any:  # noqa: ANN401 - JSON has no narrower type
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The relay's own, where it speaks for itself; an agent's answer has none."""
        return str(self.json["code"]) if self.headers.get("x-relay-from") == "relay" else ""


@dataclass
class Carried:
    """A request as the agent got it."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)


@dataclass
class KindAgent:
    """An agent's API that says what it was asked, or what a test wants.

    Attributes:
        status: Of its answers.
        answer: Its body; empty tells what was asked.
        headers: Added to its answers.
        events: Sent one by one, each when the one before was let go, instead of ``answer``.
        go: Lets one event go.
    """

    port: int = 0
    status: int = 200
    answer: bytes = b""
    kind: str = "application/json"
    headers: list[tuple[str, str]] = field(default_factory=list)
    events: Sequence[bytes] = ()
    go: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    asked: list[Carried] = field(default_factory=list)
    hung_up_on: int = 0

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.CancelledError):
            self.hung_up_on += 1
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        http = h11.Connection(h11.SERVER)
        carried = await _request(http, reader)
        self.asked.append(carried)
        body = self.answer or json.dumps({"method": carried.method, "target": carried.target}).encode()
        length = [] if self.events else [("Content-Length", str(len(body)))]
        headers = [("Content-Type", self.kind), *length, *self.headers]
        writer.write(http.send(h11.Response(status_code=self.status, headers=headers)) or b"")
        for event in self.events:
            watching = asyncio.ensure_future(reader.read(1))
            letting = asyncio.ensure_future(self.go.acquire())
            await asyncio.wait({watching, letting}, return_when=asyncio.FIRST_COMPLETED)
            if not letting.done():
                letting.cancel()
                raise ConnectionAbortedError
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            writer.write(http.send(h11.Data(data=event)) or b"")
            await writer.drain()
        if not self.events:
            writer.write(http.send(h11.Data(data=body)) or b"")
        writer.write(http.send(h11.EndOfMessage()) or b"")
        await writer.drain()


async def _request(http: h11.Connection, reader: asyncio.StreamReader) -> Carried:
    carried, body = Carried("", "", [], b""), bytearray()
    while not isinstance(event := http.next_event(), h11.EndOfMessage):
        if event is h11.NEED_DATA:
            http.receive_data(await reader.read(65536))
        elif isinstance(event, h11.Request):
            carried.method, carried.target = event.method.decode(), event.target.decode()
            carried.headers = [(name.decode(), value.decode()) for name, value in event.headers]
        elif isinstance(event, h11.Data):
            body += event.data
        else:
            raise ConnectionAbortedError
    carried.body = bytes(body)
    return carried


@contextlib.asynccontextmanager
async def kind_agent() -> AsyncIterator[KindAgent]:
    agent = KindAgent()
    server = await asyncio.start_server(agent.serve, HOST, 0)
    agent.port = server.sockets[0].getsockname()[1]
    try:
        yield agent
    finally:
        server.close()


@dataclass
class Caller:
    """A service with its key.

    Attributes:
        context: How it proves itself.
    """

    admitted: Admitted
    context: ssl.SSLContext
    request: str


@dataclass
class RelayWorld:
    """A running relay and its registry."""

    registry: Registry
    clock: TurnedClock
    authority: Authority
    callers: Callers
    port: int
    serving: "asyncio.Task[None]"

    def admit(self, name: str = "message-router") -> Caller:
        key = openssl.make()
        request = openssl.request(key).decode()
        admitted = self.callers.admit(name, request, why="test")
        return Caller(admitted, self.proving(key, admitted.certificate), request)

    def proving(self, key: bytes, certificate: str) -> ssl.SSLContext:
        """How somebody with this key and certificate connects."""
        context = ssl.create_default_context(cadata=self.authority.certificate)
        present(context, key, certificate.encode())
        return context

    def agent(self, alias: str, url: str, *, status: InstanceStatus = InstanceStatus.RUNNING) -> Instance:
        """An agent whose machine's ports are reached there."""
        instance = placed(self.registry, alias)
        machine = MachineId(f"m-{alias}")
        self.registry.instances.set_machine(instance.id, machine)
        self.registry.instances.set_status(instance.id, status)
        until = self.registry.now() + timedelta(hours=6)
        self.registry.proxy_tokens.keep(ProxyToken(f"t-{alias}", machine, PLATFORM, until, TOKEN + alias, url))
        return self.registry.instances.find(alias)

    async def ask(
        self,
        caller: Caller,
        line: str,
        *,
        body: bytes = b"",
        headers: Sequence[tuple[str, str]] = (),
        within_s: float = 60.0,
    ) -> Said:
        """One request, its target exactly as given."""
        length = [("Content-Length", str(len(body)))] if body else []
        lines = [f"{line} HTTP/1.1", *(f"{name}: {value}" for name, value in [("Host", "x"), *length, *headers])]
        return await self.send(caller.context, "\r\n".join(lines).encode() + b"\r\n\r\n" + body, within_s=within_s)

    async def send(self, context: ssl.SSLContext | None, data: bytes, *, within_s: float = 60.0) -> Said:
        """Bytes as they are, and the answer to its end."""
        async with asyncio.timeout(within_s):
            reader, writer = await asyncio.open_connection(HOST, self.port, ssl=context)
            try:
                with contextlib.suppress(OSError):
                    writer.write(data)
                    await writer.drain()
                return await answer_in(reader)
            finally:
                writer.close()


async def answer_in(reader: asyncio.StreamReader) -> Said:
    http = h11.Connection(h11.CLIENT)
    http.send(h11.Request(method="GET", target="/", headers=[("Host", "x")]))
    http.send(h11.EndOfMessage())
    status, headers, body = 0, dict[str, str](), bytearray()
    with contextlib.suppress(OSError, h11.RemoteProtocolError):
        while not isinstance(event := http.next_event(), h11.EndOfMessage):
            if event is h11.NEED_DATA:
                http.receive_data(await reader.read(65536))
            elif isinstance(event, h11.Response):
                status = event.status_code
                headers = {name.decode(): value.decode() for name, value in event.headers}
            elif isinstance(event, h11.Data):
                body += event.data
            else:
                break
        return Said(status, headers, bytes(body), whole=isinstance(event, h11.EndOfMessage))
    return Said(status, headers, bytes(body), whole=False)


def _patient(stop_s: float) -> Bounds:
    """The relay's own bounds, but for a computer that is busy with other tests."""
    return replace(bounds_of(stop_s), handshake_s=30)


@contextlib.asynccontextmanager
async def relaying(
    folder: Path,
    *,
    places: Places | None = None,
    bounds: Bounds | None = None,
    url: str = "",
    clock: TurnedClock | None = None,
) -> AsyncIterator[RelayWorld]:
    clock = clock or TurnedClock()
    registry = registry_at(url or f"sqlite:///{folder}/registry.db", clock=clock)
    authority = Authority.load(fresh_key(), registry, environment="local", source="memory")
    callers = Callers(registry, lambda: authority, environment="local", life=LIFE)
    own = OwnCertificate(authority, registry, [HOST], LIFE)
    listener = socket.create_server((HOST, 0))
    listener.setblocking(False)
    port = listener.getsockname()[1]
    async with ProxyClient(f"http://{HOST}:9", alone=True) as proxy:
        relay = Relay(registry, callers.caller_of, lambda *held: callers.renew(*held).to_json(), proxy, places)
        server = MutualTlsListener(
            lambda connection: relay.converse(connection.certificate, connection.reader, connection.writer),
            own.context,
            bounds or _patient(0),
        )
        serving = asyncio.create_task(server.serve(listener))
        try:
            yield RelayWorld(registry, clock, authority, callers, port, serving)
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            registry.close()
