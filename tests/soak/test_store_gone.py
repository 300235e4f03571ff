"""An object store that is gone, or takes calls and never answers: agents live on, nothing is lost, then all is done.

An hour is as long as two minutes to whoever asks: nothing here remembers how long it has been gone.
"""

import os
import shutil
import signal
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from hermesops.base import waiting
from tests.support.real.commands.command import Command, local_world

pytestmark = [pytest.mark.machines, pytest.mark.timeout(3600)]

MEMORY = "/var/lib/hermes/memories/MEMORY.md"
LARGE = "/var/lib/hermes/skills/large/data"
LARGE_BYTES = 600 * 10**6
ASKED = ("--reason", "test")
UNAVAILABLE, PARTLY = 4, 6


@dataclass(frozen=True)
class Store:
    """The world's object store.

    Attributes:
        program: What it runs; a copy of the test's own.
    """

    program: Path

    @property
    def processes(self) -> list[int]:
        """Those that run it."""
        process_ids = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                is_it = (path / "exe").readlink() == self.program
            except OSError:  # it ended, or is the kernel's
                continue
            if is_it:
                process_ids.append(int(path.name))
        return process_ids

    @contextmanager
    def down(self) -> Iterator[None]:
        """It ends, and cannot be started."""
        self.program.chmod(0o600)
        try:
            for process in self.processes:
                os.kill(process, signal.SIGKILL)
            yield
        finally:
            self.program.chmod(0o755)

    @contextmanager
    def dumb(self) -> Iterator[None]:
        """It lets itself be called and says nothing."""
        stopped = self.processes
        for process in stopped:
            os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            for process in stopped:
                os.kill(process, signal.SIGCONT)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[Command]:
    async with local_world(tmp_path / "home", image=False) as command:
        own = _own_tools(Path(command.environ["HERMESOPS_CACHE"]), tmp_path / "cache")
        mine = command.with_variables(HERMESOPS_CACHE=str(own), HERMESOPS_LAST_BACKUP="required")
        await mine.ok("image", "build")
        yield mine


def _own_tools(shared: Path, own: Path) -> Path:
    """A cache like another, with tools of its own, which can be made useless."""
    own.mkdir()
    for kept in shared.iterdir():
        if kept.name == "tools":
            # Without drafts: a world that has just come up may be building one.
            shutil.copytree(kept, own / kept.name, ignore=shutil.ignore_patterns(".*"))
        else:
            (own / kept.name).symlink_to(kept)
    return own


@pytest.mark.parametrize("outage", ["down", "dumb"])
async def test_agents_live_on_and_all_is_done_once_it_is_back(world: Command, outage: str, table: Table) -> None:
    user, text = f"u{uuid.uuid4().hex[:8]}", f"told-{uuid.uuid4().hex}"
    await world.ok("provision", user, "--plan", "light")
    await _chat(world, user, f"RUN: mkdir -p $(dirname {MEMORY}) && echo {text} >> {MEMORY}")
    await world.ok("backup", "create", user)
    [program] = (Path(world.environ["HERMESOPS_CACHE"]) / "tools").glob("*/versitygw")
    store = Store(program)
    assert len(store.processes) == 2

    commands = (
        (("backup", "create", user), UNAVAILABLE),
        (("backup", "check", user), UNAVAILABLE),
        (("backup", "restore", user, "--yes", *ASKED), UNAVAILABLE),
        (("instance", "suspend", user, *ASKED), UNAVAILABLE),
        (("instance", "resize", user, "--plan", "heavy", *ASKED), UNAVAILABLE),
        (("instance", "terminate", user, "--yes", *ASKED), UNAVAILABLE),
    )
    with getattr(store, outage)():
        for words, code in commands:
            ran = await world.run(*words)
            table.add_row(outage, " ".join(words[:2]), str(ran.exit_code), f"{ran.seconds:.0f} s", _error(ran.stderr))
            assert ran.exit_code == code, str(ran)
            assert text in await _chat(world, user, f"RUN: cat {MEMORY}"), f"after {words}"
            await _abandon(world)
    await _answers(world, user)
    await world.ok("instance", "suspend", user, *ASKED)
    await world.ok("instance", "resume", user, *ASKED)
    assert text in await _chat(world, user, f"RUN: cat {MEMORY}")
    await world.ok("instance", "terminate", user, "--now", "--yes", *ASKED)


async def test_one_that_goes_in_the_middle_of_a_copy_keeps_no_half_one(world: Command, table: Table) -> None:
    user = f"u{uuid.uuid4().hex[:8]}"
    await world.ok("provision", user, "--plan", "light")
    make = f"mkdir -p $(dirname {LARGE}) && head -c {LARGE_BYTES} /dev/urandom > {LARGE}"
    await world.ok("instance", "exec", user, "--user", "hermes", *ASKED, "--", make)
    await world.ok("backup", "list", user)
    before = await _backups(world, user)
    backing = await world.start("instance", "suspend", user, *ASKED)
    assert backing.stderr is not None
    async for line in backing.stderr:
        if b"backing up" in line:
            break
    await waiting.pause(3)
    [program] = (Path(world.environ["HERMESOPS_CACHE"]) / "tools").glob("*/versitygw")
    with Store(program).down():
        _, output = await backing.communicate()
        table.add_row("in the middle", "instance suspend", str(backing.returncode), "", _error(output.decode()))
        assert backing.returncode == UNAVAILABLE, output.decode()
        assert await _backups(world, user) == before
        assert await _chat(world, user, "hello")
    await _answers(world, user)
    await world.ok("instance", "suspend", user, *ASKED)
    before_sleep, after_outage = await _backups(world, user)
    assert min(before_sleep["bytes"], after_outage["bytes"]) > LARGE_BYTES
    await world.ok("backup", "check", user)
    await world.ok("instance", "resume", user, *ASKED)
    await world.ok("instance", "terminate", user, "--now", "--yes", *ASKED)


async def _chat(world: Command, user: str, text: str) -> str:
    return (await world.ok("instance", "chat", user, text, *ASKED)).stdout


async def _abandon(world: Command) -> None:
    """Let what was begun be asked for in another way."""
    for operation in (await world.ok("operation", "list", "--json")).json["operations"]:
        await world.ok("operation", "abandon", operation["id"], "--yes", *ASKED)


async def _backups(world: Command, user: str) -> list[dict[str, int]]:
    return list((await world.ok("backup", "list", user, "--json")).json["backups"])


async def _answers(world: Command, user: str) -> None:
    """Return once backups are taken again."""

    async def observe() -> bool | waiting.Pending[bool]:
        ran = await world.run("backup", "create", user)
        return True if ran.exit_code == 0 else waiting.Pending(_error(ran.stderr))

    await waiting.until(observe, what="a backup", timeout_s=60, every_s=1)


def _error(output: str) -> str:
    return next((line for line in output.splitlines() if line.startswith("error:")), "")[:100]


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    rows = Table("store", "command", "exit", "took", "said", title="without an object store")
    yield rows
    Console(width=160).print(rows)
