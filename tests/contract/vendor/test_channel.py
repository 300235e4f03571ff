"""What every channel promises, against the toolbox of a hand-made server and of a real machine."""

import asyncio
import contextlib
import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermesops.vendor.channel import (
    Channel,
    CommandExpiredError,
    Exit,
    MachineGoneError,
    NoSuchFileError,
    Pace,
    ToolboxChannel,
)
from hermesops.vendor.justavps import Client
from tests.support.real.machines.machine import opened_driver
from tests.support.suite.prerequisites import require
from tests.support.vendor.toolbox_server import API_KEY, MACHINE, ToolboxServer, serving
from tests.support.worlds.local.local_server import serving as serving_cloud

MACHINES = (pytest.mark.machines, pytest.mark.turns(1))
NEVER_DIRECT = Pace(direct_s=0, answer_s=1, every_s=0.05)
"""Every command is detached, and long ones are asked for again and again."""

NO_TEXT = bytes(range(256)) * 3


@contextlib.asynccontextmanager
async def _on_this_computer() -> AsyncIterator[tuple[Client, str]]:
    require(os.geteuid() == 0, "root, to hand commands to other users")
    with serving(ToolboxServer()) as url:
        async with Client(url, API_KEY) as client:
            yield client, MACHINE


@contextlib.asynccontextmanager
async def _on_a_machine(folder: Path) -> AsyncIterator[tuple[Client, str]]:
    require(os.geteuid() == 0, "root, to boot machines")
    async with opened_driver() as driver, serving_cloud(folder, driver) as cloud:
        machine = await cloud.ready("channel")
        key = (folder / "api.key").read_text().strip()
        async with Client(f"{cloud.where.api_url}/api/v1", key) as client:
            yield client, str(machine["id"])


@pytest.fixture(
    scope="module",
    params=["server", *(pytest.param(name, marks=MACHINES) for name in ("machine", "machine-detached"))],
)
async def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Client, str]]:
    channel_context = (
        _on_this_computer() if request.param == "server" else _on_a_machine(tmp_path_factory.mktemp("world"))
    )
    async with channel_context as channel_and_folder:
        yield channel_and_folder


@pytest.fixture
def channel(place: tuple[Client, str], request: pytest.FixtureRequest) -> Channel:
    detached = request.node.callspec.params["place"] == "machine-detached"
    return ToolboxChannel(*place, pace=NEVER_DIRECT if detached else None)


@pytest.fixture
async def folder(channel: Channel) -> AsyncIterator[str]:
    """A folder on the machine."""
    channel_context = (await channel.run("mktemp -d /var/tmp/channel-XXXXXX")).text
    yield channel_context
    await channel.run(f"rm -rf {channel_context}")


async def test_output_and_exit_code_come_back_apart(channel: Channel) -> None:
    done = await channel.run("echo out; echo wrong >&2; exit 7")
    assert (done.exit_code, done.stdout, done.stderr, done.exact) == (7, b"out\n", b"wrong\n", True)


async def test_a_command_runs_where_and_with_what_it_is_told(channel: Channel) -> None:
    done = await channel.run('echo "$PWD $WORD"', cwd="/usr", env={"WORD": "a 'b' \"c\" $d\n"})
    assert done.stdout == b"/usr a 'b' \"c\" $d\n\n"


async def test_what_is_not_text_is_marked_unless_asked_for(channel: Channel) -> None:
    command = r"printf '\377\000\n'; printf '\376' >&2; exit 3"
    plain = await channel.run(command)
    assert plain.exact == (plain.stdout == b"\xff\x00\n")
    done = await channel.run(command, binary=True)
    assert (done.exit_code, done.stdout, done.stderr, done.exact) == (3, b"\xff\x00\n", b"\xfe", True)


async def test_binary_output_may_be_empty(channel: Channel) -> None:
    done = await channel.run("exit 4", binary=True)
    assert (done.exit_code, done.stdout, done.stderr) == (4, b"", b"")


async def test_very_long_output_comes_back_whole(channel: Channel) -> None:
    done = await channel.run("head -c 20000000 /dev/zero | tr '\\0' x; echo long >&2", binary=True)
    assert (len(done.stdout), set(done.stdout), done.stderr) == (20_000_000, {ord("x")}, b"long\n")
    assert (await channel.run("ls /var/tmp | grep hermesops-output")).text == ""


async def test_input_reaches_the_command_unharmed_and_leaves_nothing(channel: Channel) -> None:
    # Its input's file is open, and gone from the folder. Another test's may lie there meanwhile.
    done = await channel.run("cat; readlink /proc/$$/fd/0 >&2", stdin=NO_TEXT, binary=True)
    assert (done.stdout, done.stderr[-10:]) == (NO_TEXT, b"(deleted)\n")


async def test_input_reaches_a_command_of_another_user(channel: Channel) -> None:
    done = await channel.run('id -un; id -Gn; echo "$USER $WORD"; cat', user="nobody", stdin=b"in", env={"WORD": "w"})
    assert done.stdout == b"nobody\nnogroup\nnobody w\nin"


async def test_without_input_a_command_finds_none(channel: Channel) -> None:
    assert (await channel.run("cat; echo end")).stdout == b"end\n"


async def test_a_command_that_takes_too_long_is_ended_and_said(channel: Channel) -> None:
    with pytest.raises(CommandExpiredError, match="reached its time limit"):
        await channel.run("sleep 30", timeout_s=1)


async def test_output_is_told_as_it_comes(channel: Channel) -> None:
    events = [event async for event in channel.stream(r"printf 'a\377'; exit 5")]
    assert b"".join(event.data for event in events if not isinstance(event, Exit)) == b"a\xff"
    assert events[-1] == Exit(5)


async def test_files_go_there_and_back_with_their_mode(channel: Channel, folder: str) -> None:
    await channel.put(f"{folder}/deep/file", NO_TEXT, mode=0o640)
    assert (await channel.run(f"stat -c %a {folder}/deep/file")).text == "640"
    assert await channel.get(f"{folder}/deep/file") == NO_TEXT


async def test_an_empty_file_is_a_file(channel: Channel, folder: str) -> None:
    await channel.put(f"{folder}/empty", b"")
    assert await channel.get(f"{folder}/empty") == b""


async def test_a_large_file_is_streamed_both_ways(channel: Channel, folder: str, tmp_path: Path) -> None:
    source, back = tmp_path / "source", tmp_path / "back"
    with source.open("wb") as file:
        for _ in range(50):
            file.write(os.urandom(1 << 20))
    await channel.put(f"{folder}/large", source)
    await channel.get_to(f"{folder}/large", back)
    assert _digest(back) == _digest(source)


async def test_a_missing_file_is_said_and_leaves_none_here(channel: Channel, folder: str, tmp_path: Path) -> None:
    with pytest.raises(NoSuchFileError, match="nothing does not exist"):
        await channel.get(f"{folder}/nothing")
    with pytest.raises(NoSuchFileError, match="nothing does not exist"):
        await channel.get_to(f"{folder}/nothing", tmp_path / "nothing")
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - names are enough


async def test_removing_twice_is_success(channel: Channel, folder: str) -> None:
    await channel.put(f"{folder}/file", b"x")
    await channel.delete(f"{folder}/file")
    await channel.delete(f"{folder}/file")
    with pytest.raises(NoSuchFileError, match="file does not exist"):
        await channel.get(f"{folder}/file")


async def test_many_commands_at_once_do_not_mix(channel: Channel) -> None:
    done = await asyncio.gather(*(channel.run("cat; sleep 0.2", stdin=str(n).encode()) for n in range(20)))
    assert [int(completed.stdout) for completed in done] == list(range(20))


async def test_a_machine_that_is_not_there_is_said(place: tuple[Client, str]) -> None:
    gone = ToolboxChannel(place[0], "00000000-0000-4000-8000-000000000000")
    with pytest.raises(MachineGoneError, match="running a command: 404"):
        await gone.run("true")
    with pytest.raises(MachineGoneError, match="writing /run/x: 404"):
        await gone.put("/run/x", b"")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
