"""Locks that the CLI writes: those of our own children are marked, so that their death can be seen."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermesops.errors import UnavailableError
from hermesops.infra.engine.embedded.state.file_backend import FileBackend
from hermesops.infra.engine.embedded.state.lock import held, mark_child
from hermesops.infra.engine.embedded.state.storage import Folder
from hermesops.model.stack import StackRef

PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import os; print(os.getpid()); input()'])"


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return FileBackend(tmp_path).lock_folder(StackRef("fleet", "cell1"))


@pytest.fixture
def child() -> Iterator[subprocess.Popen[str]]:
    """A process of ours whose own child is the CLI, as where `pulumi` is a wrapper; prints that one's number."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        process.kill()


def write(folder: Folder, pid: object, *, hostname: str = socket.gethostname()) -> None:
    """Write a lock as the CLI does (recorded: lock, step 1)."""
    document = {"pid": pid, "username": "u", "hostname": hostname, "timestamp": "2026-01-01T00:00:00Z"}
    folder.storage.write(f"{folder.name}/cli.json", json.dumps(document).encode())


def is_marked(folder: Folder) -> bool:
    return "hermesops" in json.loads(folder.storage.read(f"{folder.name}/cli.json") or b"")


def refuses(folder: Folder) -> bool:
    try:
        with held(folder, stack="cell1", report=lambda _: None):
            return False
    except UnavailableError:
        return True


def test_the_lock_of_a_child_lasts_as_long_as_the_child(folder: Folder, child: subprocess.Popen[str]) -> None:
    assert child.stdin
    assert child.stdout
    write(folder, int(child.stdout.readline()))
    mark_child(folder)
    assert refuses(folder)
    child.stdin.close()
    child.wait()
    assert not refuses(folder)


def test_the_lock_of_a_cli_that_nobody_marked_is_respected(folder: Folder) -> None:
    write(folder, 2**22 - 7)
    assert refuses(folder)


@pytest.mark.parametrize(
    "pid",
    [
        pytest.param(os.getpid(), id="this process"),
        pytest.param(os.getppid(), id="its parent"),
        *(1, 0, -1, "1", None, 2**22 - 7),
    ],
)
def test_no_other_process_is_taken_for_a_child(folder: Folder, pid: object) -> None:
    write(folder, pid)
    mark_child(folder)
    assert not is_marked(folder)


def test_a_child_of_that_number_on_another_computer_is_not_ours(folder: Folder, child: subprocess.Popen[str]) -> None:
    assert child.stdout
    write(folder, int(child.stdout.readline()), hostname="elsewhere")
    mark_child(folder)
    assert not is_marked(folder)


def test_our_own_lock_keeps_its_token(folder: Folder) -> None:
    with held(folder, stack="cell1", report=pytest.fail, token=(1, 5)):
        mark_child(folder)
        (file,) = folder.files(".json")
        assert json.loads(folder.storage.read(file) or b"")["hermesops"]["token"] == [1, 5]


def test_a_lock_that_cannot_be_read_is_left_as_it_is(folder: Folder) -> None:
    for content in (b"", b"[]", b"{"):
        folder.storage.write(f"{folder.name}/cli.json", content)
        mark_child(folder)
        assert folder.storage.read(f"{folder.name}/cli.json") == content
        assert refuses(folder)
