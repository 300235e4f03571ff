"""A shell that remembers its folder, with the shell of this computer in the machine's place."""

import asyncio
from pathlib import Path
from typing import cast

import pytest

from hermesops.vendor.channel.interface import Channel, Completed
from hermesops.vendor.channel.shell import Shell


class _Here:
    """Runs commands on this computer, in a folder of the test's."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def run(self, command: str, *, timeout_s: float, binary: bool) -> Completed:
        assert binary
        to = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            "/bin/sh", "-c", command, cwd=self._folder, stdin=asyncio.subprocess.DEVNULL, stdout=to, stderr=to
        )
        async with asyncio.timeout(timeout_s):
            out, err = await process.communicate()
        return Completed(process.returncode or 0, out, err)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(cast("Channel", _Here(tmp_path)), str(tmp_path))


@pytest.mark.parametrize(
    "name", ["two words", "it's; touch planted; '", "$(touch planted)", "`touch planted`", "-n", "*"]
)
async def test_the_folder_is_remembered_and_its_name_is_no_command(shell: Shell, tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "file").touch()
    shell.folder = str(tmp_path / name)
    assert (await shell.run("ls")).stdout == b"file\n"
    assert (await shell.run("cd ..; ls")).stdout == f"{name}\n".encode()
    assert shell.folder == str(tmp_path)


async def test_output_and_exit_code_are_the_lines_own(shell: Shell) -> None:
    done = await shell.run("printf out; echo wrong >&2; false")
    assert (done.exit_code, done.stdout, done.stderr) == (1, b"out", b"wrong\n")
    assert shell.last_exit_code == 1


async def test_a_line_knows_the_exit_code_of_the_one_before(shell: Shell) -> None:
    outputs = [(await shell.run(line)).stdout for line in ("false", "echo $?", "echo $?", "(exit 77)", "echo $?")]
    assert outputs == [b"", b"1\n", b"0\n", b"", b"77\n"]


async def test_a_line_that_leaves_the_shell_keeps_its_output_and_the_folder(shell: Shell, tmp_path: Path) -> None:
    done = await shell.run("cd /; echo bye; exit 3")
    assert (done.exit_code, done.stdout, shell.folder) == (3, b"bye\n", str(tmp_path))
