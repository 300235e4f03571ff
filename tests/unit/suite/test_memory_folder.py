"""Where short-lived files of tests are: in memory where there is room for them."""

import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.suite.memory_folder import ROOM_BYTES, memory_folder


def test_memory_is_used_where_it_has_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for free, place in ((ROOM_BYTES, tmp_path), (ROOM_BYTES - 1, Path(tempfile.gettempdir()))):
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: SimpleNamespace(free=free))
        assert memory_folder(tmp_path) == place


def test_a_computer_without_such_a_file_system_has_its_temporary_folder(tmp_path: Path) -> None:
    assert memory_folder(tmp_path / "none") == Path(tempfile.gettempdir())
