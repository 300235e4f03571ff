"""The installed ``hermesops`` command in an environment of its own, run as a user would."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from tests.support.real.commands import fork_server
from tests.support.suite.kept import shared_cache
from tests.support.worlds.local.left_worlds import remember_world
from tests.support.worlds.local.traces import traces

HERMESOPS = Path(sys.executable).with_name("hermesops")
INSTALLED = (str(HERMESOPS),)
"""The program as people run it, for who measures it or runs it under limits and namespaces of its own."""


def forks() -> tuple[str, ...]:
    """The same program as forks of a process that has loaded it: each takes milliseconds where that takes a second."""
    return (str(fork_server.folder() / "hermesops"),)


def forks_of(module: str) -> tuple[str, ...]:
    """A program like it, a module of these tests (one of ``fork_client.FORKED``), in the same way."""
    return (str(fork_server.folder() / "python"), "-m", module)


@dataclass(frozen=True)
class Ran:
    """A command that ended."""

    arguments: tuple[str, ...]
    exit_code: int
    stdout: str
    stderr: str
    seconds: float

    @property
    def json(self) -> Any:  # noqa: ANN401 - JSON has no narrower type
        return json.loads(self.stdout)

    def __str__(self) -> str:
        return f"hermesops {' '.join(self.arguments)} -> {self.exit_code}\n{self.stdout}\n{self.stderr}"


@dataclass(frozen=True)
class Command:
    """Runs commands with one home.

    Attributes:
        home: What ``HERMESOPS_HOME`` says.
        variables: Added to the environment.
        program: What is run with a command's arguments: forks, what is installed, or something that runs or is like it.
        said: Everything any command printed, for searches.
    """

    home: Path
    variables: dict[str, str] = field(default_factory=dict)
    program: tuple[str, ...] = field(default_factory=forks)
    said: list[Ran] = field(default_factory=list)

    @property
    def environ(self) -> dict[str, str]:
        ours = {key: value for key, value in os.environ.items() if not key.startswith("HERMESOPS_")}  # noqa: TID251
        # Most agents of tests know nothing that anybody would miss; tests of lives and backups say otherwise.
        hasty = {"HERMESOPS_GRACE_DAYS": "0", "HERMESOPS_LAST_BACKUP": "none", "HERMESOPS_PREVIOUS_DAYS": "0"}
        hasty["HERMESOPS_MONITORING_PROFILE"] = "lean"  # or a Loki on each machine, where one was built for other tests
        places = {"HERMESOPS_HOME": str(self.home), "HERMESOPS_CACHE": str(shared_cache())}
        return {**ours, **places, **hasty, **self.variables}

    def with_variables(self, **variables: str) -> Self:
        return replace(self, variables={**self.variables, **variables})

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            *self.program,
            *arguments,
            env=self.environ,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )

    async def run(self, *arguments: str, timeout_s: float = 600, typed: str = "") -> Ran:
        started = time.monotonic()
        process = await self.start(*arguments)
        try:
            async with asyncio.timeout(timeout_s):
                stdout, stderr = await process.communicate(typed.encode())
        finally:
            if process.returncode is None:
                process.kill()
        assert process.returncode is not None
        ran = Ran(arguments, process.returncode, stdout.decode(), stderr.decode(), time.monotonic() - started)
        self.said.append(ran)
        return ran

    async def ok(self, *arguments: str) -> Ran:
        ran = await self.run(*arguments)
        assert ran.exit_code == 0, str(ran)
        return ran

    async def machines(self) -> list[dict[str, Any]]:
        return list((await self.ok("local", "status", "--json")).json["machines"])

    async def killed_at(self, line: str, *arguments: str, by: signal.Signals = signal.SIGKILL, nth: int = 1) -> int:
        """Run a command, send it a signal when it narrates ``line`` the ``nth`` time; return what it ended with."""
        process, started, read = await self.start(*arguments), time.monotonic(), b""
        assert process.stderr is not None
        async for raw in process.stderr:
            read += raw
            nth -= line in raw.decode()
            if not nth:
                break
        if process.returncode is None:
            process.send_signal(by)
        stdout, rest = await process.communicate()
        assert process.returncode is not None
        stderr, seconds = (read + rest).decode(), time.monotonic() - started
        self.said.append(Ran(arguments, process.returncode, stdout.decode(), stderr, seconds))
        return process.returncode

    async def killed_after(self, seconds: float, *arguments: str, by: signal.Signals = signal.SIGKILL) -> int:
        """Run a command, send it a signal after so many seconds unless it has ended, and return what it ended with."""
        process = await self.start(*arguments)
        ending = asyncio.create_task(process.communicate())
        await asyncio.wait({ending}, timeout=seconds)
        if process.returncode is None:
            process.send_signal(by)
        await ending
        assert process.returncode is not None
        return process.returncode


@asynccontextmanager
async def local_world(
    home: Path,
    *,
    image: bool = True,
    base: str = "",
    driver: str = "",
    variables: Mapping[str, str] | None = None,
    program: Sequence[str] = (),
    vendors: bool = False,
) -> AsyncIterator[Command]:
    """A running local world with an image in it; nothing of it is left afterwards.

    Args:
        home: What ``HERMESOPS_HOME`` says.
        image: Whether to build the image.
        base: What its machines boot from; the default unless given.
        driver: What runs them; the default unless given.
        variables: What else is set.
        program: What runs its commands; forks unless given.
        vendors: Whether stand-ins of vendors run beside it.
    """
    chosen = {"HERMESOPS_LOCAL_BASE": base, "HERMESOPS_LOCAL_DRIVER": driver, **(variables or {})}
    command = Command(home, {name: value for name, value in chosen.items() if value}, tuple(program) or forks())
    remember_world(home / "local" / "world")
    try:
        await command.ok("local", "up", *(["--vendors"] if vendors else []))
        if image:
            await command.ok("image", "build")
        yield command
    finally:
        await command.run("local", "down", "--purge", "--yes")
    left = traces(home / "local" / "world")
    assert not left, left
