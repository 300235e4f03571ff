"""The authenticated proxy: ``{port}--{slug}.localhost`` is a port of a machine, ``{slug}.localhost`` its daemon.

It must not read what it carries, and never logs a path: browser links hold the token.
"""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import parse_qs

import httpcore
from starlette.types import ASGIApp, Receive, Scope, Send

from hermesops.localcloud.api.keys import check_proxy_token
from hermesops.localcloud.api.problem import Problem, not_found
from hermesops.localcloud.faults.kinds import FaultKind
from hermesops.localcloud.faults.rules import Faults
from hermesops.localcloud.proxy.broker import Broker
from hermesops.localcloud.proxy.forward import Headers, errors_as_problems, forward
from hermesops.localcloud.proxy.upgrade import Handshake, UnreadableHeadError, read_answer, splice
from hermesops.localcloud.store.database import Store
from hermesops.localcloud.store.rows import MachineRow, Wanted

_HOST = re.compile(r"(?:(?P<port>[0-9]{1,5})--)?(?P<slug>[a-z0-9][a-z0-9-]*)\.localhost(?::[0-9]+)?")
_PORTS = range(1, 65536)
_HEADER = b"x-proxy-token"

HANDSHAKE_S = 10.0
"""Seconds for a service to take a WebSocket's handshake and answer it, the way to it included."""

MOST_UPGRADED = 64
"""WebSockets of a machine at once: more than a user's browsers open. Each takes two descriptors of this process, which
may have 1024 of them, so that no machine takes those of the others."""


@dataclass(frozen=True)
class Target:
    """The target of a name of the proxy; ``port`` is ``None`` for the daemon itself."""

    slug: str
    port: int | None


def target_of(host: str) -> Target | None:
    """Read a Host header; ``None`` when it is not one of the proxy's names."""
    match = _HOST.fullmatch(host.lower())
    if match is None:
        return None
    return Target(match["slug"], int(match["port"]) if match["port"] else None)


class Proxy:
    """Serves the proxy's names and hands every other host to the API."""

    def __init__(self, api: ASGIApp, store: Store, broker: Broker, faults: Faults) -> None:
        self._api = api
        self._store = store
        self._broker = broker
        self._faults = faults
        self._upgraded = Counter[str]()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request to the proxy or the API."""
        headers = dict(scope["headers"])
        target = target_of(headers.get(b"host", b"").decode("latin-1"))
        if target is None:
            await self._api(scope, receive, send)
            return
        try:
            machine = self._admit(target, _token_of(headers, scope["query_string"]), scope["method"], scope["path"])
            scope["localcloud"] = {"machine": machine.names}
            await self._pass_on(machine, target, scope, receive, send)
        except Problem as problem:
            await problem.response()(scope, receive, send)

    async def upgrade(self, handshake: Handshake, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one request for a WebSocket: admitted like any request, then carried as bytes.

        A machine has so many of them and no more; a further one is answered with 503.
        """
        try:
            machine, port = self._admit_upgrade(handshake)
            with self._place(machine):
                stream, answer = await self._reach(machine, port, handshake)
                try:
                    writer.write(answer)
                    await splice(reader, writer, stream)
                finally:
                    await stream.aclose()
        except Problem as problem:
            body = problem.response().body
            head = (
                f"HTTP/1.1 {problem.status} {HTTPStatus(problem.status).phrase}\r\ncontent-type: application/json\r\n"
            )
            writer.write(f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r\n".encode() + body)

    def _admit_upgrade(self, handshake: Handshake) -> tuple[MachineRow, int]:
        target = target_of(handshake.header(b"host"))
        if target is None or target.port is None:
            raise not_found("WebSocket")
        path, _, query = handshake.target.partition(b"?")
        token = _token_of(dict(handshake.headers), query)
        return self._admit(target, token, handshake.method.decode(), path.decode("latin-1")), target.port

    @contextmanager
    def _place(self, machine: MachineRow) -> Iterator[None]:
        if self._upgraded[machine.id] >= MOST_UPGRADED:
            raise Problem(503, f"the machine has {MOST_UPGRADED} WebSockets open, and gets no more")
        self._upgraded[machine.id] += 1
        try:
            yield
        finally:
            self._upgraded[machine.id] -= 1
            if not self._upgraded[machine.id]:
                del self._upgraded[machine.id]

    async def _reach(
        self, machine: MachineRow, port: int, handshake: Handshake
    ) -> tuple[httpcore.AsyncNetworkStream, bytes]:
        """The stream to a service that has answered the handshake, and its answer."""
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                with errors_as_problems():
                    stream = await self._broker.open_port(machine.id, port)
                try:
                    await stream.write(_passed_on(handshake, port))
                    return stream, await read_answer(stream)
                except BaseException:
                    await stream.aclose()
                    raise
        except UnreadableHeadError as error:
            raise Problem(502, "the service on that port does not answer in HTTP") from error
        except httpcore.NetworkError as error:
            raise Problem(503, "the machine does not answer") from error
        except TimeoutError as error:
            raise Problem(504, "the service on that port did not answer in time") from error

    def _admit(self, target: Target, token: str, method: str, path: str) -> MachineRow:
        machines = self._store.find(MachineRow, slug=target.slug)
        if (
            not machines
            or machines[0].wanted == Wanted.DELETED
            or (target.port is not None and target.port not in _PORTS)
        ):
            raise not_found("Machine")
        machine = machines[0]
        check_proxy_token(self._store, machine.id, token)
        if fault := self._faults.take(FaultKind.PROXY_UNAUTHORISED, machine.names, method=method, path=path):
            raise Problem(fault.status, "Missing, expired or revoked proxy token")
        return machine

    async def _pass_on(self, machine: MachineRow, target: Target, scope: Scope, receive: Receive, send: Send) -> None:
        path: bytes = scope["raw_path"] + (b"?" + scope["query_string"] if scope["query_string"] else b"")
        seen_as = [
            (b"x-forwarded-host", dict(scope["headers"])[b"host"]),
            (b"x-forwarded-proto", b"http"),
            (b"x-forwarded-for", str((scope.get("client") or ("",))[0]).encode()),
        ]

        async def ask(headers: Headers, body: AsyncIterator[bytes] | None) -> httpcore.Response:
            if target.port is None:
                return await self._broker.ask_daemon(machine.id, scope["method"], path, headers, body)
            return await self._broker.ask_port(machine.id, target.port, scope["method"], path, headers + seen_as, body)

        ours = frozenset({_HEADER, b"authorization"} if target.port is None else {_HEADER})
        await forward(scope, receive, send, ask, drop=ours)


def _passed_on(handshake: Handshake, port: int) -> bytes:
    """The handshake for the service: without the token's header, under the service's own name."""
    headers = [(name, value) for name, value in handshake.headers if name not in {_HEADER, b"host"}]
    seen_as = [(b"host", f"127.0.0.1:{port}".encode()), (b"x-forwarded-host", handshake.header(b"host").encode())]
    lines = b"".join(name + b": " + value + b"\r\n" for name, value in [*seen_as, *headers])
    return handshake.method + b" " + handshake.target + b" HTTP/1.1\r\n" + lines + b"\r\n"


def _token_of(headers: Mapping[bytes, bytes], query: bytes) -> str:
    if _HEADER in headers:
        return headers[_HEADER].decode("latin-1")
    # The query stays as it is, this token included: so does the vendor, and services behind it must expect that.
    return parse_qs(query.decode("latin-1")).get("__proxy_token", [""])[0]
