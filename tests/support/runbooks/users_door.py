"""The platform's public door beside real monitoring, and processes behind it that answer as those of the API do."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from hermesops.api.front import Front
from hermesops.api.server import Server
from hermesops.base.waiting import Pending, cancel, until
from tests.support.real import edge
from tests.support.real.monitoring import platform_host
from tests.support.real.monitoring.platform_host import PlatformHost
from tests.support.releases.role_files import defaults_of


@dataclass(frozen=True)
class UsersDoor:
    """What a platform's host has of it.

    Attributes:
        folder: Of nginx, with the sockets of the processes behind.
        port: At which Prometheus asks.
    """

    host: PlatformHost
    folder: Path
    port: int

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Run nginx until the block ends."""
        root = platform_host.programs()
        assert root is not None
        sockets = [self.folder / "api-1.sock", self.folder / "api-2.sock"]
        with edge.running(self.folder, root, sockets, {f"__{edge.ROLE}_asked_port": self.port}):
            yield

    @asynccontextmanager
    async def processes(self) -> AsyncIterator[None]:
        """One process of the API and that of connections, until the block ends."""
        async with self._process("api-1"), self._process("connections"):
            yield

    async def answers(self, *services: str) -> None:
        """Wait until Prometheus says that these services answer."""

        async def check() -> bool | Pending[bool]:
            up = await asyncio.to_thread(self.host.query, 'max by (service) (up{job="platform"}) == 1')
            present = {labels["service"] for labels, _ in up}
            return set(services) <= present or Pending(f"{present} answer")

        await until(check, what=f"Prometheus to hear of {services}", timeout_s=60, every_s=0.5)

    @asynccontextmanager
    async def _process(self, name: str) -> AsyncIterator[None]:
        """A process behind the door. It knows no host by name, so it refuses whoever asks."""
        path = self.folder / f"{name}.sock"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen()
            listener.setblocking(False)
            server = Server(Front(_nothing, frozenset(), {}), listener)
            serving = asyncio.ensure_future(server.serve_until_cancelled())
            try:
                yield
            finally:
                await cancel(serving)
                path.unlink()


async def _nothing(*_: object) -> None:
    raise AssertionError("a route was asked")


def registered(host: PlatformHost) -> UsersDoor:
    """Have Prometheus ask for all that the roles list."""
    folder = host.folder / "door"
    folder.mkdir()
    port = edge.free_port()
    for role in ("edge", "api", "connections"):
        listed = defaults_of(f"hermes_platform_{role}")[f"__hermes_platform_{role}_scraped"]
        host.asks(role, port, [entry["labels"] for entry in listed])
    return UsersDoor(host, folder, port)
