"""The port at which machines and this computer find the platform's monitoring: passed on to the machine that it is on.

Machines reach no other machine, so the world's server stands between: plain TCP, to that one port of that one machine.
It must not know what is said: TLS goes through to the machine.
"""

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

import structlog

from hermesops.errors import HermesError
from hermesops.localcloud.drivers.interface import Driver
from hermesops.localcloud.server.listener import listen_again, port_of
from hermesops.localcloud.store.database import Store
from hermesops.model.ids import MachineId
from hermesops.waiting import cancel, pause

PORT_ON_MACHINE = 8443
"""Default of role hermes_platform_monitoring."""

_PIECE = 1 << 16
_CONNECT_S = 2.0
_IDLE_S = 120.0
_RELIEF_S = 1.0

log = structlog.get_logger()


@dataclass(frozen=True)
class Bounds:
    """Connections at a time, of all and of one address; further ones are dropped."""

    at_once: int = 1024
    per_address: int = 32


@contextlib.asynccontextmanager
async def opened(driver: Driver, store: Store, marker: Path, port: int) -> AsyncIterator[str]:
    """Listen while the block lasts; gives the URL, which answers once there is a machine.

    Args:
        marker: Holds the id of the machine; absent while there is none.
        port: 0 takes last time's, at first any free one.
    """

    def address() -> IPv4Address | None:
        try:
            return driver.daemon_address(MachineId(marker.read_text().strip()))[0]
        except (OSError, HermesError):  # none yet, or deleted since
            return None

    with listen_again(store, "monitoring_port", str(driver.gateway), port) as listener:
        forward = Forward(address, PORT_ON_MACHINE)
        serving = asyncio.create_task(forward.serve(listener), name="forward to the platform's monitoring")
        try:
            yield f"https://{driver.gateway}:{port_of(listener)}"
        finally:
            await cancel(serving)


class Forward:
    """Passes connections on.

    Args:
        address: Where to; asked for each connection, ``None`` drops it.
    """

    def __init__(self, address: Callable[[], IPv4Address | None], port: int, bounds: Bounds | None = None) -> None:
        self._address = address
        self._port = port
        self._bounds = bounds or Bounds()
        self._open: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, listener: socket.socket) -> None:
        """Serve until cancelled; open connections end with it."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                try:
                    connection, (peer, _) = await loop.sock_accept(listener)
                except OSError as error:  # out of descriptors, for a moment
                    log.warning("connection_not_taken", why=str(error))
                    await pause(_RELIEF_S)
                    continue
                if self._open.total() >= self._bounds.at_once or self._open[peer] >= self._bounds.per_address:
                    connection.close()
                    continue
                self._open[peer] += 1
                task = loop.create_task(self._serve(connection, peer))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        finally:
            await cancel(*self._tasks)

    async def _serve(self, connection: socket.socket, peer: str) -> None:
        try:
            with contextlib.suppress(OSError, TimeoutError):
                from_peer, to_peer = await asyncio.open_connection(sock=connection)
                try:
                    await self._pass_on(from_peer, to_peer)
                finally:
                    to_peer.close()
        finally:
            self._open[peer] -= 1
            if not self._open[peer]:
                del self._open[peer]

    async def _pass_on(self, from_peer: asyncio.StreamReader, to_peer: asyncio.StreamWriter) -> None:
        address = self._address()
        if address is None:
            return
        async with asyncio.timeout(_CONNECT_S):
            from_machine, to_machine = await asyncio.open_connection(str(address), self._port)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_pump(from_peer, to_machine))
                both.create_task(_pump(from_machine, to_peer))
        except* (OSError, TimeoutError):
            pass  # one side hung up hard, or says nothing
        finally:
            to_machine.transport.abort()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Until the source ends, is silent for too long, or the sink takes nothing."""
    while True:
        async with asyncio.timeout(_IDLE_S):
            piece = await source.read(_PIECE)
            if not piece:
                break
            sink.write(piece)
            await sink.drain()
    if sink.can_write_eof():
        sink.write_eof()
