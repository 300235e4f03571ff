"""What a machine believes of restic, which a script stands for here."""

import os
import subprocess
from pathlib import Path

import pytest

from hermesops.programs.node.system import restic
from hermesops.programs.node.system.files import Access
from hermesops.programs.node.system.restic import Repository, Restic, Saved
from hermesops.wire.errors import NotReadyError

_SUMMARY = '{"message_type": "summary", "snapshot_id": "%s", "data_added": 5}'


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "restic"
    path.touch(0o755)
    monkeypatch.setattr(restic, "PROGRAM", str(path))
    return path


def _save(stand_in: Path, script: str) -> Saved:
    stand_in.write_text(f"#!/bin/sh\ncat > /dev/null\n{script}\n")
    reader = Restic(Repository("/nowhere", "p"), Access(0o600, os.geteuid(), os.getegid()))
    with reader.saving() as saving, subprocess.Popen(["echo", "state"], stdout=subprocess.PIPE) as source:
        assert source.stdout
        saving.take(source.stdout)
        return saving.end()


def test_a_summary_and_a_good_end_are_a_snapshot(stand_in: Path) -> None:
    assert _save(stand_in, f"echo '{_SUMMARY % ('a' * 64)}'") == Saved("a" * 64, 5)


def test_a_summary_and_a_bad_end_are_none(stand_in: Path) -> None:
    with pytest.raises(NotReadyError, match="could not be written"):
        _save(stand_in, f"echo '{_SUMMARY % ('a' * 64)}'; echo 'the index could not be written' >&2; exit 1")


def test_a_good_end_without_a_summary_is_none(stand_in: Path) -> None:
    with pytest.raises(NotReadyError, match="ended without a message"):
        _save(stand_in, """echo '{"message_type": "status"}'""")
