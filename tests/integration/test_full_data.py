"""A disk that is full while a state is copied, or put in place: said with figures, and everything is as it was."""

import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermesops.programs.node.state import backup
from hermesops.wire.errors import NotReadyError, RefusedError
from hermesops.wire.state.contents import OURS
from tests.support.fakes.machines.node_home import PASSWORD, NodeHome, make
from tests.support.suite.prerequisites import require

_MIB = 1 << 20


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[NodeHome]:
    """A machine whose disk has 24 MiB, an agent with a database of some, and a repository that lies elsewhere."""
    require(os.geteuid() == 0, "root")
    require(shutil.which("restic") is not None, "restic")
    # Not pytest's own folder: another run tidies that up, and this one is a mount.
    root = Path(tempfile.mkdtemp(prefix="hermesops-full-"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", root], check=True)
    node_home = make(root)
    node_home.repository = tmp_path / "repository"
    with sqlite3.connect(node_home.home / "state.db") as database:
        database.execute("CREATE TABLE padding (bytes BLOB)")
        database.execute("INSERT INTO padding VALUES (?)", (os.urandom(4 * _MIB),))
    database.close()
    yield node_home
    subprocess.run(["umount", root], check=True)
    root.rmdir()


def fill(machine: NodeHome) -> Path:
    """Take all room but a megabyte."""
    path = machine.layout.root / "big"
    free = os.statvfs(machine.home)
    path.write_bytes(b"x" * (free.f_bavail * free.f_frsize - _MIB))
    return path


def left_in(machine: NodeHome) -> list[str]:
    ours = machine.home / os.fsdecode(OURS)
    return sorted(str(path.relative_to(ours)) for path in ours.rglob("*")) if ours.exists() else []


def test_a_copy_for_which_there_is_no_room_is_none_and_leaves_nothing(machine: NodeHome) -> None:
    before, big = backup.state(machine.node)["state"], fill(machine)
    with pytest.raises(NotReadyError, match=r"no room for a copy of 'state\.db'"):
        backup.backup(machine.node, machine.upload(), lease=None)
    assert left_in(machine) == []
    assert backup.state(machine.node)["state"] == before
    big.unlink()
    assert backup.backup(machine.node, machine.upload(), lease=None)["state"] == before
    completed = subprocess.run(
        ["restic", "snapshots", "--json", "--no-cache", "--repo", machine.repository],
        env={"PATH": "/usr/bin:/bin", "RESTIC_PASSWORD": PASSWORD},
        capture_output=True,
        check=True,
    )
    assert completed.stdout.count(b'"short_id"') == 1  # the one that was cut short is no snapshot


def test_a_state_for_which_there_is_no_room_is_refused_with_figures_and_nothing_moves(machine: NodeHome) -> None:
    backup.backup(machine.node, machine.upload(), lease=None)
    machine.say("said since")
    now, big = backup.state(machine.node)["state"], fill(machine)
    with pytest.raises(RefusedError, match=r"no room for the copy.*0\.0 GB of 0\.0 GB are free; nothing was changed"):
        backup.restore(machine.node, machine.upload(snapshot="latest"), lease=None)
    assert left_in(machine) == []
    assert machine.layout.restoring.exists() is False
    assert backup.state(machine.node)["state"] == now
    big.unlink()
    backup.restore(machine.node, machine.upload(snapshot="latest"), lease=None)
    assert backup.state(machine.node)["state"] != now
