"""A killed process's temporary folder is removed by the next process; one in use, or just made, is not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hermesops.base.files.scratch_folder import scratch_folder

_HOLDS = """
import sys
from pathlib import Path
from hermesops.base.files.scratch_folder import scratch_folder
with scratch_folder(Path(sys.argv[1]), "work-") as folder:
    (folder / "part").touch()
    print(folder, flush=True)
    sys.stdin.read()
"""


def _aged(folder: Path) -> Path:
    os.utime(folder, (0, 0))
    return folder


def test_it_is_removed_at_the_end_whatever_came(tmp_path: Path) -> None:
    with scratch_folder(tmp_path / "cache", "work-") as folder:
        (folder / "part").touch()
    with pytest.raises(ValueError, match="broken"), scratch_folder(tmp_path / "cache", "work-") as broken:
        raise ValueError("broken")
    assert (folder.exists(), broken.exists()) == (False, False)


def test_those_of_killed_processes_are_removed_by_the_next(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDS, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout
    held = _aged(Path(holder.stdout.readline().strip()))
    other = tmp_path / "kept-1"
    other.mkdir()
    _aged(other)
    young = tmp_path / "work-young"
    young.mkdir()
    with scratch_folder(tmp_path, "work-"):
        assert held.exists(), "its process lives"
    holder.kill()
    holder.communicate()
    with scratch_folder(tmp_path, "work-"):
        assert not held.exists()
    assert (other.exists(), young.exists()) == (True, True)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    _aged(precious)
    (tmp_path / "work-link").symlink_to(precious)
    with scratch_folder(tmp_path, "work-"):
        pass
    assert (precious / "file").exists()
