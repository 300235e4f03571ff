"""The sockets of the platform's services for machines, users and agents; the first connection starts each.

So a world whose machines ask for nothing pays for no service. What the service is stays unknown here: it is a command
that takes ``--socket`` and the number of a listening socket.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address

import structlog

from hermesops.base.waiting import pause
from hermesops.localcloud.server.background import run_child
from hermesops.localcloud.server.listener import listen_again, port_of
from hermesops.localcloud.store.database import Store

_AGAIN_AFTER_S = 1.0

log = structlog.get_logger()


@dataclass(frozen=True)
class Service:
    """The command of the platform's service.

    Attributes:
        command: Takes ``--socket`` and a number besides.
        environment: All of it: the registry and the keys that the service needs are none of the server's business.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)


@contextlib.asynccontextmanager
async def opened(service: Service, store: Store, gateway: IPv4Address, port: int) -> AsyncIterator[str]:
    """Listen for machines while the block lasts; gives the URL at which machines find the service.

    Args:
        service: Started at the first connection, and again at the next one after it has ended.
        gateway: Where machines find this computer.
        port: 0 takes last time's, at first any free one.
    """
    with listen_again(store, "platform_port", str(gateway), port) as listener:
        async with _kept(listener, service):
            yield f"https://{gateway}:{port_of(listener)}"


@contextlib.asynccontextmanager
async def opened_for_users(service: Service, store: Store, address: str) -> AsyncIterator[str]:
    """Listen for users' browsers while the block lasts; gives the URL of the users' API.

    Args:
        address: Of loopback; the port is last time's, at first any free one.
    """
    with listen_again(store, "users_port", address, 0) as listener:
        async with _kept(listener, service):
            yield f"http://localhost:{port_of(listener)}"


@contextlib.asynccontextmanager
async def opened_for_agents(
    service: Service, store: Store, gateway: IPv4Address, port: int, wanted: asyncio.Event
) -> AsyncIterator[str]:
    """Listen for agents' sockets while the block lasts; gives the URL of the connector.

    Args:
        gateway: As of ``opened``; so is ``port``.
        wanted: Starts it as a connection does, once it is set.
    """
    with listen_again(store, "connector_port", str(gateway), port) as listener:
        async with _kept(listener, service, wanted):
            yield f"https://{gateway}:{port_of(listener)}"


@contextlib.asynccontextmanager
async def _kept(listener: socket.socket, service: Service, wanted: asyncio.Event | None = None) -> AsyncIterator[None]:
    keeping = _keep(listener, service, wanted or asyncio.Event())
    keeper = asyncio.create_task(keeping, name=f"keep {' '.join(service.command[-2:])}")
    try:
        yield
    finally:
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)


async def _keep(listener: socket.socket, service: Service, wanted: asyncio.Event) -> None:
    while True:
        await _connection(listener, wanted)
        log.info("service_started", command=" ".join(service.command[-2:]))
        # It logs to the server's own log.
        command = [*service.command, "--socket", str(listener.fileno())]
        code = await run_child(command, env=service.environment, pass_fds=[listener.fileno()])
        log.warning("service_ended", command=" ".join(service.command[-2:]), exit_code=code)
        await pause(_AGAIN_AFTER_S)


async def _connection(listener: socket.socket, wanted: asyncio.Event) -> None:
    """Wait until the service is wanted, as by a connection, which waits in the listener until the service takes it."""
    loop = asyncio.get_running_loop()
    loop.add_reader(listener, wanted.set)
    try:
        await wanted.wait()
    finally:
        loop.remove_reader(listener)
        wanted.clear()
