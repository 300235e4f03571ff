"""The daemon of all simulated machines: one listener on loopback, where the bearer says which machine is meant.

It must not decide what a request does; ``toolbox`` and ``agent`` do.
"""

import asyncio
import base64
import contextlib
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from http import HTTPStatus
from ipaddress import IPv4Address
from typing import Protocol, TypeVar

from hermesops.localcloud.drivers.sim.agent.hostility import proxy_port
from hermesops.localcloud.drivers.sim.agent.server import Agent
from hermesops.localcloud.drivers.sim.daemon import toolbox
from hermesops.localcloud.drivers.sim.daemon.http_peer import HangupError, Peer, Request
from hermesops.localcloud.drivers.sim.daemon.shell import Done
from hermesops.localcloud.drivers.sim.guest import Guest
from hermesops.waiting import pause

LOOPBACK = IPv4Address("127.0.0.1")
_LOCAL = {"127.0.0.1", "localhost"}
_BACKLOG = 1024
_PIECE = 64 * 1024

T = TypeVar("T")


class Host(Protocol):
    """Who runs the machines."""

    def running(self, token: str) -> str | None:
        """The machine whose daemon takes this bearer; raises ``HangupError`` while that is off."""

    async def hear(self, machine_id: str) -> None:
        """Ask once what an agent answers hermes-node that was taken over."""

    def guest(self, machine_id: str) -> Guest:
        """A machine, for one request."""

    def work(self, guest: Guest, do: Callable[[], T]) -> T:
        """Do something on a machine in one step, and what it wants of its power after it."""


class Daemon:
    """Listens.

    Args:
        host: Runs the machines.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._agent = Agent(host)
        self._server: asyncio.Server | None = None
        self._connections: defaultdict[str, set[asyncio.StreamWriter]] = defaultdict(set)
        self.port = 0

    async def open(self) -> None:
        """Accept connections from now on, on a free port."""
        self._server = await asyncio.start_server(self._serve, str(LOOPBACK), 0, backlog=_BACKLOG)
        self.port = int(self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Hang up on everybody."""
        if self._server:
            self._server.close()
        for machine_id in list(self._connections):
            self.cut(machine_id)
        await self._agent.close()

    def cut(self, machine_id: str) -> None:
        """Hang up on whoever talks to a machine: it went down."""
        for writer in self._connections.pop(machine_id, ()):
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer, met = Peer(reader, writer), ""
        try:
            while True:
                request = await peer.request()
                is_tunnel = request.method == "CONNECT"
                machine_id = self._host.running(request.bearer("proxy-authorization" if is_tunnel else "authorization"))
                if machine_id is None:
                    await peer.answer(401, {"error": "the bearer is missing or wrong", "code": "unauthorized"})
                    return
                met = machine_id
                await self._host.hear(machine_id)
                self._connections[met].add(writer)
                if is_tunnel:
                    await self._tunnel(machine_id, request, peer, reader, writer)
                    return
                if not await self._answer(machine_id, request, peer):
                    return
        except HangupError:
            pass
        finally:
            if met and (left := self._connections.get(met)):
                left.discard(writer)
                if not left:
                    self._connections.pop(met, None)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, machine_id: str, request: Request, peer: Peer) -> bool:
        guest = self._host.guest(machine_id)
        call = toolbox.Call(request.method, request.path, request.query, request.body)
        is_stream = (call.method, call.path) == ("POST", "/toolbox/process/execute/stream")
        status = 200
        content: object = None
        serve = toolbox.execute if is_stream else toolbox.answer
        try:
            content = self._host.work(guest, lambda: serve(guest, call))
        except toolbox.RefusalError as refusal:
            status, content = refusal.status, {"error": refusal.message, "code": refusal.code}
        if guest.slept_s:
            await pause(guest.slept_s)
        if is_stream and isinstance(content, Done):
            return await peer.stream(_events(content))
        return await peer.answer(status, content)

    async def _tunnel(
        self,
        machine_id: str,
        request: Request,
        peer: Peer,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        host, _, port = request.target.rpartition(":")
        if host not in _LOCAL or not port.isdecimal():
            message = {"error": "only ports of 127.0.0.1 can be reached", "code": "forbidden"}
            await peer.answer(HTTPStatus.FORBIDDEN, message)
        elif not self._host.guest(machine_id).gateway.admits(int(port)):
            message = {"error": f"nothing answers on port {port}", "code": "connection_refused"}
            await peer.answer(HTTPStatus.BAD_GATEWAY, message)
        elif elsewhere := proxy_port(self._host.guest(machine_id).disk):
            await peer.accept()
            await _splice(reader, writer, peer.early, elsewhere)
        else:
            await peer.accept()
            await self._agent.serve(machine_id, Peer(reader, writer, peer.early))


async def _splice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, early: bytes, port: int) -> None:
    """Let somebody else on this computer answer, byte by byte, until either side ends."""
    try:
        theirs, to_them = await asyncio.open_connection(str(LOOPBACK), port)
    except OSError:
        return
    to_them.write(early)
    both = {asyncio.ensure_future(_pump(reader, to_them)), asyncio.ensure_future(_pump(theirs, writer))}
    try:
        await asyncio.wait(both)
    finally:
        for pumping in both:
            pumping.cancel()
        await asyncio.gather(*both, return_exceptions=True)
        to_them.close()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(_PIECE):
            writer.write(data)
            await writer.drain()
        writer.write_eof()


async def _events(done: Done) -> AsyncIterator[bytes]:
    for name, text in (("stdout", done.out), ("stderr", done.err)):
        if text:
            yield _event(name, {"data": base64.b64encode(text.encode()).decode()})
    yield _event("exit", {"exit_code": done.code, "duration_ms": 1})


def _event(name: str, value: object) -> bytes:
    return f"event: {name}\ndata: {json.dumps(value)}\n\n".encode()
