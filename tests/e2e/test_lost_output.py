"""What a stream does not take is lost, the work is not; and Ctrl-C is answered by a sentence."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.real.commands.command import INSTALLED, Command, local_world

_NO_ROOM = "stdout could not be written: No space left on device"
_INTERRUPTED = "interrupted; the same command continues where it stopped"

LINES: tuple[tuple[str, int, str], ...] = (
    ("$H --help >/dev/full", 4, _NO_ROOM),
    ("$H instance list >/dev/full", 4, _NO_ROOM),
    ("$H instance list --json >/dev/full", 4, _NO_ROOM),
    ("$H instance show nobody --json >/dev/full", 2, _NO_ROOM),
    ("$H instance list >/dev/full 2>&1", 4, ""),
    ("$H instance list 2>/dev/full", 0, ""),
    ("$H instance show nobody 2>/dev/full", 2, ""),
    ("$H bogus 2>/dev/full", 2, ""),
)


async def shell(command: Command, line: str) -> tuple[int, str]:
    """The exit code and stderr of a shell's line in which ``$H`` is the command."""
    environ = {**command.environ, "H": command.program[0]}
    process = await asyncio.create_subprocess_exec(
        "bash", "-c", line, env=environ, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    _, stderr = await process.communicate()
    assert process.returncode is not None
    return process.returncode, stderr.decode()


async def test_a_stream_that_takes_nothing_costs_its_output_alone(tmp_path: Path) -> None:
    command = Command(tmp_path / "home")
    await command.ok("instance", "list")
    for line, exit_code, output in LINES:
        code, stderr = await shell(command, line)
        outcome = (code, output in stderr, "Traceback" in stderr, "Exception ignored" in stderr)
        assert outcome == (exit_code, True, False, False), f"{line}: {code}: {stderr}"


async def test_the_version_needs_a_stdout_too(tmp_path: Path) -> None:
    code, stderr = await shell(Command(tmp_path, program=INSTALLED), "$H --version >/dev/full")
    assert (code, stderr.splitlines()[0]) == (4, f"error: {_NO_ROOM}")


@pytest.mark.turns(10)
async def test_work_is_finished_when_stderr_takes_nothing(tmp_path: Path) -> None:
    async with local_world(tmp_path / "simulated", driver="sim") as world:
        code, _ = await shell(world, "$H provision pib --plan light 2>/dev/full")
        assert code == 0
        assert (await world.ok("operation", "list", "--json")).json["operations"] == []


def test_ctrl_c_among_imports_is_answered_in_one_line(tmp_path: Path) -> None:
    """Python tells of each import on stderr, so that the moment is known."""
    program = [sys.executable, "-X", "importtime", "-m", "hermesops", "instance", "list"]
    with subprocess.Popen(program, env=Command(tmp_path).environ, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.rstrip().endswith(" typer.core"):
                process.send_signal(signal.SIGINT)
                break
        lines = [line for line in process.stderr.read().splitlines() if not line.startswith("import time:")]
    assert (process.returncode, lines) == (130, [_INTERRUPTED])


async def test_ctrl_c_while_a_command_runs_is_answered(tmp_path: Path) -> None:
    list_of_users = tmp_path / "users"
    os.mkfifo(list_of_users)
    process = await Command(tmp_path / "home").start("provision", "--plan", "light", "--from", str(list_of_users))
    # Opening it waits for who reads it: from then on the command waits for a first line.
    writing = await asyncio.to_thread(os.open, list_of_users, os.O_WRONLY)
    process.send_signal(signal.SIGINT)
    stdout, stderr = await process.communicate()
    os.close(writing)
    assert (process.returncode, stdout, stderr.decode().splitlines()) == (130, b"", [_INTERRUPTED])
