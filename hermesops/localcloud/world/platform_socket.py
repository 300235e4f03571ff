"""The sockets of the platform's services for machines, users and agents; the first connection starts each.

So a world whose machines ask for nothing pays for no service. What the service is stays unknown here: it is a command
that takes ``--socket`` and the number of a listening socket.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address

import structlog

from hermesops.base.waiting import cancel, pause
from hermesops.localcloud.server.background import run_child
from hermesops.localcloud.server.listener import listen_again, port_of
from hermesops.localcloud.store.database import Store

_AGAIN_AFTER_S = 1.0
_LOOK_EVERY_S = 1.0

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


def _never() -> bool:
    return False


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
async def opened_for_users(
    service: Service, store: Store, address: str, is_elsewhere: Callable[[], bool] = _never
) -> AsyncIterator[str]:
    """Listen for users' browsers while the block lasts; gives the URL of the users' API.

    Args:
        address: Of loopback; the port is last time's, at first any free one.
        is_elsewhere: Whether users are served by the platform: then this one ends, and who connects is turned away.
    """
    with listen_again(store, "users_port", address, 0) as listener:
        async with _kept(listener, service, is_elsewhere=is_elsewhere):
            yield f"http://localhost:{port_of(listener)}"


@contextlib.asynccontextmanager
async def opened_for_agents(
    service: Service,
    store: Store,
    gateway: IPv4Address,
    port: int,
    wanted: asyncio.Event,
    is_elsewhere: Callable[[], bool] = _never,
) -> AsyncIterator[str]:
    """Listen for agents' sockets while the block lasts; gives the URL of the connector.

    Args:
        gateway: As of ``opened``; so is ``port``.
        wanted: Starts it as a connection does, once it is set.
        is_elsewhere: As of ``opened_for_users``: two connectors would both write to users.
    """
    with listen_again(store, "connector_port", str(gateway), port) as listener:
        async with _kept(listener, service, wanted, is_elsewhere):
            yield f"https://{gateway}:{port_of(listener)}"


@contextlib.asynccontextmanager
async def _kept(
    listener: socket.socket,
    service: Service,
    wanted: asyncio.Event | None = None,
    is_elsewhere: Callable[[], bool] = _never,
) -> AsyncIterator[None]:
    keeping = _keep(listener, service, wanted or asyncio.Event(), is_elsewhere)
    keeper = asyncio.create_task(keeping, name=f"keep {' '.join(service.command[-2:])}")
    try:
        yield
    finally:
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)


async def _keep(
    listener: socket.socket, service: Service, wanted: asyncio.Event, is_elsewhere: Callable[[], bool]
) -> None:
    while True:
        await _connection(listener, wanted)
        if is_elsewhere():
            _turn_away(listener)
            continue
        log.info("service_started", command=" ".join(service.command[-2:]))
        code = await _served(listener, service, is_elsewhere)
        log.warning("service_ended", command=" ".join(service.command[-2:]), exit_code=code)
        await pause(_AGAIN_AFTER_S)


async def _served(listener: socket.socket, service: Service, is_elsewhere: Callable[[], bool]) -> int | None:
    """Run the service to its end, or until it is served elsewhere; its exit code."""
    # It logs to the server's own log.
    command = [*service.command, "--socket", str(listener.fileno())]
    child = asyncio.ensure_future(run_child(command, env=service.environment, pass_fds=[listener.fileno()]))
    try:
        while not (await asyncio.wait({child}, timeout=_LOOK_EVERY_S))[0]:
            if is_elsewhere():
                return None
        return child.result()
    finally:
        await cancel(child)


def _turn_away(listener: socket.socket) -> None:
    """Close a connection that waits, if there is one."""
    listener.setblocking(False)
    with contextlib.suppress(OSError):
        listener.accept()[0].close()


async def _connection(listener: socket.socket, wanted: asyncio.Event) -> None:
    """Wait until the service is wanted, as by a connection, which waits in the listener until the service takes it."""
    loop = asyncio.get_running_loop()
    loop.add_reader(listener, wanted.set)
    try:
        await wanted.wait()
    finally:
        loop.remove_reader(listener)
        wanted.clear()
