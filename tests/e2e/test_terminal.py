"""What a person sees on a terminal of some width, in colour or without, and that a pipe gets the same words whole."""

import asyncio
import fcntl
import os
import pty
import re
import struct
import termios
from pathlib import Path

import pytest

from tests.support.real.commands.command import INSTALLED

pytestmark = pytest.mark.turns(8)

STYLE = re.compile("\x1b\\[[0-9;]*m")
HOSTS = {name: value for name, value in os.environ.items() if name in {"PATH", "LANG", "HOME"}}  # noqa: TID251 - as a user has it


async def on_terminal(home: Path, width: int, *words: str, **variables: str) -> tuple[int, str]:
    """Run a command on a terminal of so many columns; its exit code and what it showed."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    environ = {**HOSTS, "TERM": "xterm-256color", "HERMESOPS_HOME": str(home), **variables}
    process = await asyncio.create_subprocess_exec(*INSTALLED, *words, stdin=its, stdout=its, stderr=its, env=environ)
    os.close(its)
    shown = await asyncio.to_thread(_read, ours)
    return await process.wait(), shown


def _read(descriptor: int) -> str:
    read = b""
    try:
        while data := os.read(descriptor, 65_536):
            read += data
    except OSError:  # how Linux says that the other end is closed
        pass
    os.close(descriptor)
    return read.decode().replace("\r\n", "\n")


async def in_pipe(home: Path, *words: str) -> str:
    environ = {**HOSTS, "TERM": "xterm-256color", "HERMESOPS_HOME": str(home)}
    process = await asyncio.create_subprocess_exec(*INSTALLED, *words, stdout=asyncio.subprocess.PIPE, env=environ)
    stdout, _ = await process.communicate()
    return stdout.decode()


async def test_a_list_is_as_wide_as_the_terminal_at_most(tmp_path: Path) -> None:
    piped = await in_pipe(tmp_path, "settings", "show")
    keys = [line.split()[0] for line in piped.splitlines()[1:]]
    assert max(map(len, piped.splitlines())) > 120
    assert "\x1b" not in piped
    for width in (80, 120, 200):
        code, shown = await on_terminal(tmp_path, width, "--env", "local", "settings", "show", "--quiet")
        assert code == 0
        assert max(map(len, shown.splitlines())) <= width, width
        assert set(keys) <= set(shown.split()), width
    _, shown = await on_terminal(tmp_path, 80, "settings", "show", "-o", "wide", NO_COLOR="1")
    assert shown.splitlines()[-1] == piped.splitlines()[-1]


async def test_colour_is_for_terminals_of_those_who_want_it(tmp_path: Path) -> None:
    words = ("instance", "show", "nobody")
    code, coloured = await on_terminal(tmp_path, 80, *words)
    assert code == 2
    assert "\x1b[1;38;5;160merror:\x1b[0m no user 'nobody'\n" in coloured
    assert "\x1b[1;38;5;31mhint:\x1b[0m \x1b[1mhermesops instance list\x1b[0m\n" in coloured
    for variables in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        _, plain = await on_terminal(tmp_path, 80, *words, **variables)
        assert plain == STYLE.sub("", coloured), variables
    for option in ("--quiet", "--json"):
        assert "\x1b" not in (await on_terminal(tmp_path, 80, *words, option))[1], option


async def test_rows_are_chosen_alike_in_every_form(tmp_path: Path) -> None:
    row = ("runbook", "list", "--filter", "runbook=gateway-*", "--sort", "-runbook")
    names = (await in_pipe(tmp_path, *row, "-o", "name")).split()
    assert names == sorted(names, reverse=True)
    assert "gateway-down" in names
    assert [line.split()[0] for line in (await in_pipe(tmp_path, *row)).splitlines()[1:]] == names
    assert re.findall(r'"runbook": "(.*)"', await in_pipe(tmp_path, *row, "-o", "json")) == names
    code, shown = await on_terminal(tmp_path, 80, "runbook", "list", "--sort", "nothing", NO_COLOR="1")
    assert (code, shown.splitlines()[0]) == (2, "error: --sort: there is no column 'nothing'")
