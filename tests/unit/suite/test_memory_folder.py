"""Where short-lived files of tests are: in memory where there is room for them."""

import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.suite.memory_folder import ROOM_BYTES, memory_folder


@pytest.mark.parametrize(("free", "is_used"), [(ROOM_BYTES, True), (ROOM_BYTES - 1, False)])
def test_memory_is_used_where_it_has_room(
    free: int, is_used: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    assert memory_folder(tmp_path) == (tmp_path if is_used else Path(tempfile.gettempdir()))


def test_a_computer_without_such_a_file_system_has_its_temporary_folder(tmp_path: Path) -> None:
    assert memory_folder(tmp_path / "none") == Path(tempfile.gettempdir())
