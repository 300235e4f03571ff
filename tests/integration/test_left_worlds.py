"""What a killed test run leaves on this computer is gone once the next one has begun; a living run's is not."""

import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.worlds.local.left_worlds import sweep
from tests.support.worlds.local.traces import traces

_RUN = """
import asyncio, sys
from pathlib import Path
from tests.support.worlds.local import left_worlds
from tests.support.real.machines.machine import new_driver, plan

left_worlds.lists_folder = lambda: Path(sys.argv[1])
state = Path(sys.argv[2])

async def run():
    left_worlds.remember_world(state)
    driver = new_driver(state)
    if sys.argv[3:] == ["machine"]:
        await driver.open()
        await driver.create(plan())
    print("made", flush=True)
    sys.stdin.read()

asyncio.run(run())
"""
_ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder() -> Iterator[Path]:
    # Not pytest's own folder: another run tidies that up, and a world holds mounts.
    path = Path(tempfile.mkdtemp(prefix="hermesops-left-"))
    yield path
    shutil.rmtree(path)


@contextmanager
def run_that_made(folder: Path, *what: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A process as a test run is one, which made a world below ``folder`` and lives."""
    command = [sys.executable, "-c", _RUN, str(folder / "lists"), str(folder / "world"), *what]
    with subprocess.Popen(command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as run:
        try:
            assert run.stdout is not None
            assert run.stdout.readline() == b"made\n"
            yield run
        finally:
            run.send_signal(signal.SIGKILL)


@pytest.mark.machines
def test_a_killed_runs_machine_is_removed(folder: Path) -> None:
    with run_that_made(folder, "machine") as run:
        run.kill()
        run.wait()
        assert traces(folder / "world"), "the machine went by itself"
    (text,) = sweep(folder / "lists")
    assert "removed" in text
    assert not traces(folder / "world")
    assert not (folder / "world").exists()
    assert sweep(folder / "lists") == []


def test_a_living_runs_world_is_left_alone(folder: Path) -> None:
    (folder / "world").mkdir()
    with run_that_made(folder):
        assert sweep(folder / "lists") == []
        assert len(list((folder / "lists").iterdir())) == 1
    assert (folder / "world").exists()


def test_what_the_dead_never_made_is_forgotten(folder: Path) -> None:
    with run_that_made(folder):
        pass
    assert sweep(folder / "lists") == []
    assert not list((folder / "lists").iterdir())
