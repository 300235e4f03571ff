"""An operator on a disk that is full or read-only: each command says so, and works again once it is not."""

import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.real.commands.command import INSTALLED, Command, Ran, local_world

pytestmark = [pytest.mark.machines, pytest.mark.turns(15)]

PROCESSORS = os.sched_getaffinity(0)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
async def world(disk: Path) -> AsyncIterator[Command]:
    async with local_world(disk / "home", driver="sim") as command:
        try:
            yield command
        finally:
            (disk / "fill").unlink(missing_ok=True)


def fill(disk: Path) -> None:
    """Take all its room; each processor counts pages of its own, so that the first refusal is not yet the last page."""
    refusals = 0
    with (disk / "fill").open("wb", buffering=0) as file:
        while refusals < 200:
            os.sched_setaffinity(0, {sorted(PROCESSORS)[refusals % len(PROCESSORS)]})
            try:
                file.write(bytes(4096))
            except OSError:
                refusals += 1
    os.sched_setaffinity(0, PROCESSORS)


def told(ran: Ran, exit_code: int, *words: str) -> None:
    assert ran.exit_code == exit_code, str(ran)
    assert [word for word in words if word not in ran.stdout + ran.stderr] == [], str(ran)
    assert "Traceback" not in ran.stderr, str(ran)


def checks(ran: Ran) -> dict[str, tuple[str, str]]:
    return {check["check"]: (check["verdict"], check["seen"]) for check in ran.json["checks"]}


async def test_on_a_full_disk_everything_says_so_and_is_finished_once_there_is_room(world: Command, disk: Path) -> None:
    await world.ok("provision", "ada", "--plan", "light")
    await world.ok("worker", "--once")
    assert checks(await world.ok("doctor", "--json"))["disk"][0] == "ok"

    fill(disk)
    checks_by_name = checks(await world.run("doctor", "--json"))
    for row in ("disk", "registry"):
        verdict, text = checks_by_name[row]
        assert (verdict, "the disk is full (0.0 of 25.2 MB free)" in text) == ("failed", True), checks_by_name
    changes = (("provision", "bob", "--plan", "light"), ("instance", "suspend", "ada", "--reason", "t"))
    for words in (("monitor", "--once"), ("worker", "--once"), *changes):
        told(await world.run(*words), 4, f"{disk}/home/local/", "cannot be written: the disk is full", "make room")

    (disk / "fill").unlink()
    for words in (("monitor", "--once"), ("worker", "--once"), *changes, ("registry", "check"), ("audit", "verify")):
        await world.ok(*words)


async def test_a_disk_that_fills_between_two_steps_leaves_an_operation_that_the_same_command_finishes(
    world: Command, disk: Path
) -> None:
    process = await world.start("provision", "bob", "--plan", "light")
    assert process.stderr is not None
    async for line in process.stderr:
        if b"assigning the machine" in line:
            fill(disk)
            break
    _, stderr = await process.communicate()
    # A write to the simulated machine that was cut off is one of unknown outcome: the machine's disk is the same one.
    assert process.returncode in {4, 5}, stderr
    assert process.returncode == 5 or b"cannot be written: the disk is full" in stderr, stderr

    (disk / "fill").unlink()
    await world.ok("provision", "bob", "--plan", "light")
    for words in (("registry", "check"), ("audit", "verify")):
        await world.ok(*words)
    assert (await world.ok("operation", "list", "--json")).json["operations"] == []


async def test_a_read_only_disk_is_no_other_leader(world: Command, disk: Path) -> None:
    script = f'mount --bind {disk} {disk} && mount -o remount,ro,bind {disk} && exec "$@"'
    # What is installed: a fork would be a child of a process outside the namespace.
    read_only = ("unshare", "-m", "sh", "-c", script, "sh", *INSTALLED)
    command = Command(world.home, world.variables, read_only)
    for words in (("monitor", "--once"), ("worker", "--once")):
        told(await command.run(*words), 4, f"{disk}/home/local/", "the file system is read-only", "mounted writable")
    ran = await command.run("doctor", "--json")
    assert ran.exit_code == 3, str(ran)
    assert {checks(ran)[row][0] for row in ("disk", "registry")} == {"failed"}
