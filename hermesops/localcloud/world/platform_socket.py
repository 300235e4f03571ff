"""The door at which machines find the platform's service: its socket is ours, the service comes with the first knock.

So a world whose machines ask for nothing pays for no service. It must not know what the service is; it is told a
command that takes ``--socket`` and the number of a listening socket.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address

import structlog

from hermesops.localcloud.server.listener import listen
from hermesops.localcloud.store.database import Store
from hermesops.localcloud.world.child_process import run_child
from hermesops.waiting import pause

_AGAIN_AFTER_S = 1.0
_PORT = "platform_port"

log = structlog.get_logger()


@dataclass(frozen=True)
class Service:
    """How the platform's service is started.

    Attributes:
        command: Takes ``--socket`` and a number besides.
        environment: All of it: the registry and the keys that the service needs are none of the server's business.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)


@contextlib.asynccontextmanager
async def opened(service: Service, store: Store, gateway: IPv4Address, port: int) -> AsyncIterator[str]:
    """Have a door; where machines find it.

    Args:
        service: What answers.
        store: Remembers the port.
        gateway: Where machines find this computer.
        port: 0 takes last time's, at first any free one.
    """
    with listen(str(gateway), port or int(store.remembered(_PORT) or 0)) as listener:
        port = int(listener.getsockname()[1])
        store.remember(_PORT, str(port))
        door = PlatformDoor(listener, service)
        door.open()
        try:
            yield f"https://{gateway}:{port}"
        finally:
            await door.close()


class PlatformDoor:
    """Starts the service at the first connection, and again at the next one after it has ended.

    Args:
        listener: Listens, and does not block; connections wait in it until the service takes them.
        service: What answers.
    """

    def __init__(self, listener: socket.socket, service: Service) -> None:
        self._listener = listener
        self._service = service
        self._keeper: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Wait for the first knock."""
        self._keeper = asyncio.create_task(self._keep(), name="keep the platform's service")

    async def close(self) -> None:
        """End the service."""
        if self._keeper:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)

    async def _keep(self) -> None:
        while True:
            await self._knock()
            log.info("platform_service_started")
            code = await self._serve()
            log.warning("platform_service_ended", exit_code=code)
            await pause(_AGAIN_AFTER_S)

    async def _knock(self) -> None:
        loop = asyncio.get_running_loop()
        knocked = asyncio.Event()
        loop.add_reader(self._listener, knocked.set)
        try:
            await knocked.wait()
        finally:
            loop.remove_reader(self._listener)

    async def _serve(self) -> int:
        # Its log is ours.
        socket = self._listener.fileno()
        command = [*self._service.command, "--socket", str(socket)]
        return await run_child(command, env=self._service.environment, pass_fds=[socket])
