"""Forks in place of the installed program end, print and die as it does."""

import asyncio
import os
import signal
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from hermesops.base.waiting import Pending, until
from tests.support.real.commands import fork_server
from tests.support.real.commands.command import INSTALLED, Command, forks_of


async def test_a_fork_says_what_the_installed_program_says(tmp_path: Path) -> None:
    forked = Command(tmp_path)
    installed = replace(forked, program=INSTALLED)
    for words in (("--version",), ("bogus",), ("instance", "show", "nobody", "--json"), ("--help",), ("instance",)):
        fork, program = await forked.run(*words), await installed.run(*words)
        assert (fork.exit_code, fork.stdout, fork.stderr) == (program.exit_code, program.stdout, program.stderr)


async def test_a_secret_is_typed_into_a_fork(tmp_path: Path) -> None:
    (tmp_path / "staging").mkdir()
    command = Command(tmp_path, {"HERMESOPS_ENV": "staging"})
    given = await command.run("secrets", "set", "api.key", typed="canary-5512")
    assert given.exit_code == 0, str(given)
    assert (tmp_path / "staging/keys/api.key").read_text().strip() == "canary-5512"


async def test_a_killed_fork_ends_and_tells_it(tmp_path: Path) -> None:
    """It reads what nobody types: only the signal ends it, and its streams with it."""
    (tmp_path / "staging").mkdir()
    process = await Command(tmp_path, {"HERMESOPS_ENV": "staging"}).start("secrets", "set", "api.key")
    assert process.stdout is not None
    os.killpg(process.pid, signal.SIGKILL)
    async with asyncio.timeout(30):
        assert await process.stdout.read() == b""
    assert await process.wait() == -signal.SIGKILL
    assert not (tmp_path / "staging/keys/api.key").exists()


async def test_a_fork_stops_and_goes_on_with_the_process_that_stands_for_it(tmp_path: Path) -> None:
    (tmp_path / "staging").mkdir()
    process = await Command(tmp_path, {"HERMESOPS_ENV": "staging"}).start("secrets", "set", "api.key")

    async def has_fork() -> int | Pending[int]:
        return _fork_of(process) or Pending("none")

    fork = await until(has_fork, what="a fork", timeout_s=60, every_s=0.05)
    process.send_signal(signal.SIGTSTP)

    async def is_stopped() -> bool | Pending[bool]:
        return _state_of(fork) == "T" or Pending(_state_of(fork))

    await until(is_stopped, what="the fork to stop", timeout_s=60, every_s=0.05)
    process.send_signal(signal.SIGCONT)
    await process.communicate(b"canary-5513")
    assert process.returncode == 0
    assert (tmp_path / "staging/keys/api.key").read_text().strip() == "canary-5513"


def _fork_of(process: asyncio.subprocess.Process) -> int | None:
    """The other process that has its stdin."""
    stdin = Path(f"/proc/{process.pid}/fd/0").readlink()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (folder / "fd/0").readlink() == stdin and int(folder.name) != process.pid:
                return int(folder.name)
    return None


def _state_of(process: int) -> str:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


async def test_processor_seconds_of_forks_are_counted(tmp_path: Path) -> None:
    before = fork_server.used_s()
    await Command(tmp_path).ok("instance", "list")
    assert fork_server.used_s() > before


async def test_python_is_python(tmp_path: Path) -> None:
    program = (*forks_of("json.tool"), "--compact")
    ran = await replace(Command(tmp_path), program=program).run(typed='{"a": 1}')
    assert (ran.exit_code, ran.stdout) == (0, '{"a":1}\n')
