"""Programs of a platform as processes that are killed and started again, and what they share."""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from hermesops.base import waiting
from hermesops.base.waiting import Pending, cancel, until
from tests.support.real.commands.command import Command
from tests.support.real.relay import HOST
from tests.support.real.stores.postgresql import PostgreSql
from tests.support.real.stores.redis_server import RedisServer

_AGAIN_S = 1.0


class Part(Protocol):
    """Part of the platform that may die, or hang for a while. What is done to it already is done to it once."""

    @property
    def name(self) -> str:
        """Its name; several of a kind have a number behind it."""

    async def start(self) -> None:
        """Start it."""

    async def kill(self) -> None:
        """Kill it with SIGKILL, or for a server that would not come back from that, as a crash does."""

    async def hang(self) -> None:
        """Stop it with SIGSTOP: it keeps all that it has, answers nobody and notices nothing. Nothing of a dead one."""

    async def wake(self) -> None:
        """Let it go on."""


@dataclass
class Program:
    """A command that serves until it is killed, the head of a process group; begun anew when it ends by itself.

    Attributes:
        port: Of loopback on which it listens; 0 for none.
        log: Takes its output, of each life behind the last one.
        ends: How often it ended by itself, as when it began while the database was away.
    """

    name: str
    command: Command
    words: Sequence[str]
    log: Path
    port: int = 0
    ends: int = 0
    process: asyncio.subprocess.Process | None = field(default=None, repr=False)
    keeping: asyncio.Future[None] | None = field(default=None, repr=False)

    async def start(self) -> None:
        """Start it; returns at once."""
        if self.keeping is None:
            await self._launch()
            self.keeping = asyncio.ensure_future(self._keep())

    async def kill(self) -> None:
        """Kill its process group."""
        if self.keeping is not None:
            await cancel(self.keeping)
            self.keeping = None
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            await self.process.wait()

    async def hang(self) -> None:
        """Stop it; the process that stands for it passes this on, as ``fork_client`` says."""
        self._send(signal.SIGTSTP)

    async def wake(self) -> None:
        """Let it go on."""
        self._send(signal.SIGCONT)

    async def is_up(self) -> bool | Pending[bool]:
        """Whether it runs, and listens."""
        if self.process is None or self.process.returncode is not None:
            return Pending(f"{self.name} has ended: {self.log.read_text(errors='replace')[-2000:]}")
        if not self.port:
            return True
        try:
            _, writer = await asyncio.open_connection(HOST, self.port)
        except OSError as error:
            return Pending(f"{self.name}: {error}")
        writer.close()
        return True

    def _send(self, number: signal.Signals) -> None:
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                self.process.send_signal(number)

    async def _launch(self) -> None:
        with self.log.open("ab") as output:
            self.process = await asyncio.create_subprocess_exec(
                *(*self.command.program, *self.words),
                env=self.command.environ,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    async def _keep(self) -> None:
        """Start it again a second after it ended, as its unit does."""
        while self.process is not None:
            await self.process.wait()
            self.ends += 1
            await waiting.pause(_AGAIN_S)
            await self._launch()


@dataclass
class Postgres:
    """The database server, which an immediate shutdown leaves as a crash does."""

    server: PostgreSql
    name: str = "PostgreSQL"
    is_running: bool = True

    async def start(self) -> None:
        """Start it, and wait until it has gone through its log."""
        if not self.is_running:
            self.server.launch()  # not in a thread, with which it would end
            await asyncio.to_thread(self.server.wait)
            self.is_running = True

    async def kill(self) -> None:
        """Break off everybody's work."""
        if self.is_running:
            self.is_running = False
            self.server.wake()
            await asyncio.to_thread(self.server.crash)

    async def hang(self) -> None:
        """Stop it, with the processes of all connections."""
        if self.is_running:
            self.server.hang()

    async def wake(self) -> None:
        """Let it go on."""
        if self.is_running:
            self.server.wake()


@dataclass
class Redis:
    """The Redis, which has nothing on disk: each death empties it."""

    server: RedisServer
    name: str = "Redis"
    is_running: bool = True

    async def start(self) -> None:
        """Start it."""
        if not self.is_running:
            self.server.start()
            self.is_running = True

    async def kill(self) -> None:
        """Kill it."""
        self.is_running = False
        self.server.kill()

    async def hang(self) -> None:
        """Stop it; it forgets nothing."""
        self.server.signal(signal.SIGSTOP)

    async def wake(self) -> None:
        """Let it go on."""
        self.server.signal(signal.SIGCONT)


@contextlib.asynccontextmanager
async def running(programs: Sequence[Program]) -> AsyncIterator[None]:
    """Run programs while the block lasts; each is up at its begin."""
    try:
        for program in programs:
            await program.start()
        await all_up(programs)
        yield
    finally:
        for program in programs:
            await program.kill()


async def all_up(programs: Sequence[Program]) -> None:
    """Wait until each of these programs is up."""
    for program in programs:
        await until(program.is_up, what=program.name, timeout_s=60, every_s=0.1)


def free_port() -> int:
    """A port of loopback that nobody has now; processes that are started again keep theirs."""
    with socket.create_server((HOST, 0)) as listener:
        return int(listener.getsockname()[1])


def kinds_of(parts: Sequence[Part]) -> Mapping[str, list[Part]]:
    """Parts by their kind: the name without its number."""
    kinds: dict[str, list[Part]] = {}
    for part in parts:
        kinds.setdefault(part.name.partition(" ")[0], []).append(part)
    return kinds
