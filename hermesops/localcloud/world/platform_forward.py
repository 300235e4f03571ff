"""The ports of the platform's services for machines and this computer, forwarded to the platform's machine.

Machines reach no other machine, so the world's server stands between: plain TCP, to those ports of that one machine.
It must not know what is said: TLS goes through to the machine. The other way, the platform's machine, and no other,
reaches the vendor's API, which listens on this computer's loopback.
"""

import asyncio
import contextlib
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

import structlog

from hermesops.base.waiting import cancel, pause
from hermesops.errors import HermesError
from hermesops.localcloud.drivers.interface import (
    PLATFORM_SERVICES,
    VENDOR_API_PORT,
    Driver,
    PlatformPort,
    PlatformService,
)
from hermesops.localcloud.server.listener import listen_again, port_of
from hermesops.localcloud.store.database import Store
from hermesops.model.ids import MachineId

_LOOPBACK = IPv4Address("127.0.0.1")
_PIECE = 1 << 16
_CONNECT_S = 2.0
_IDLE_S = 3600.0
"""A connection that waits for notices of the database or of Redis says nothing for long."""

_RELIEF_S = 1.0

log = structlog.get_logger()


@dataclass(frozen=True)
class Bounds:
    """Limits of concurrent connections: of all, of one address, and of this computer; further ones are dropped."""

    at_once: int = 1024
    per_address: int = 32
    of_here: int = 256


@dataclass(frozen=True)
class Forwarded:
    """The listening addresses, as ``HOST:PORT``.

    Attributes:
        services: Of the platform, for machines and this computer.
        vendor_api: For the platform's machine alone.
    """

    services: Mapping[PlatformService, str]
    vendor_api: str


@contextlib.asynccontextmanager
async def opened(
    driver: Driver,
    store: Store,
    marker: Path,
    api_port: int,
    *,
    services: Mapping[PlatformService, PlatformPort] = PLATFORM_SERVICES,
    vendor_api_port: int = VENDOR_API_PORT,
) -> AsyncIterator[Forwarded]:
    """Listen while the block lasts; forwarded connections are answered after there is a machine.

    Args:
        marker: Holds the id of the machine; absent while there is none.
        api_port: Of the vendor's API on loopback.
        services: Port 0 takes last time's, at first any free one; so does ``vendor_api_port``.
    """
    find = _machine_of(driver, marker)

    async with contextlib.AsyncExitStack() as stack:

        async def listen(forward: Forward, name: str, port: int) -> str:
            listener = stack.enter_context(listen_again(store, f"forward_{name}_port", str(driver.gateway), port))
            await stack.enter_async_context(_serving(forward, listener, f"forward {name}"))
            return f"{driver.gateway}:{port_of(listener)}"

        addresses = {
            service: await listen(
                Forward(find, port.on_machine, here=str(driver.gateway)), service.value, port.on_gateway
            )
            for service, port in services.items()
        }
        to_api = Forward(lambda: _LOOPBACK, api_port, only=lambda peer: peer == str(find()))
        yield Forwarded(addresses, await listen(to_api, "vendor_api", vendor_api_port))


def _machine_of(driver: Driver, marker: Path) -> Callable[[], IPv4Address | None]:
    def address() -> IPv4Address | None:
        try:
            return driver.daemon_address(MachineId(marker.read_text().strip()))[0]
        except (OSError, HermesError):  # none yet, or deleted since
            return None

    return address


@contextlib.asynccontextmanager
async def _serving(forward: "Forward", listener: socket.socket, name: str) -> AsyncIterator[None]:
    task = asyncio.create_task(forward.serve(listener), name=name)
    try:
        yield
    finally:
        await cancel(task)


class Forward:
    """Forwards connections to an address.

    Args:
        address: Where to; asked for each connection, ``None`` drops it.
        only: Whether an address may connect; asked for each connection.
        here: Address of this computer.
    """

    def __init__(
        self,
        address: Callable[[], IPv4Address | None],
        port: int,
        bounds: Bounds | None = None,
        *,
        only: Callable[[str], bool] = lambda _: True,
        here: str = "",
    ) -> None:
        self._address = address
        self._only = only
        self._here = here
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
                if self._is_full(peer) or not self._only(peer):
                    connection.close()
                    continue
                self._open[peer] += 1
                task = loop.create_task(self._serve(connection, peer))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        finally:
            await cancel(*self._tasks)

    def _is_full(self, peer: str) -> bool:
        most = self._bounds.of_here if peer == self._here else self._bounds.per_address
        return self._open.total() >= self._bounds.at_once or self._open[peer] >= most

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
    """Copy until the source ends, is silent for too long, or the sink stops reading."""
    while True:
        async with asyncio.timeout(_IDLE_S):
            piece = await source.read(_PIECE)
            if not piece:
                break
            sink.write(piece)
            await sink.drain()
    if sink.can_write_eof():
        sink.write_eof()
