import os
from pathlib import Path

import pytest

from hermesops.machines.converge.playbook import private_folder

DEAD = 4_194_305  # above the highest process id that Linux gives


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


def test_a_folder_is_private_and_gone_afterwards(tmp_path: Path) -> None:
    with private_folder() as folder:
        (folder / "deep").mkdir()
        (folder / "deep" / "secret").write_text("x")
        assert folder.stat().st_mode & 0o777 == 0o700
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    left, living, foreign = (
        tmp_path / f"hermesops-converge-{name}" for name in (f"{DEAD}-a", f"{os.getpid()}-b", "x-c")
    )
    for folder in (left, living, foreign):
        folder.mkdir()
    with private_folder():
        assert (left.exists(), living.exists(), foreign.exists()) == (False, True, True)
