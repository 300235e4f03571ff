"""Keys and world.json."""

import errno
import os
from pathlib import Path

import pytest

from hermesops.errors import BrokenInvariantError, Hint
from hermesops.localcloud.world.files import key_of, read_object, read_users_door, write_object, write_private


def test_a_key_is_made_once_and_kept(tmp_path: Path) -> None:
    key = key_of(tmp_path / "api.key", "sk_")
    assert key.startswith("sk_")
    assert len(key) > 40
    assert key_of(tmp_path / "api.key", "sk_") == key
    assert (tmp_path / "api.key").stat().st_mode & 0o777 == 0o600


def test_a_replaced_file_is_never_half_there(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "world.json"
    write_object(path, {"a": 1})
    with path.open() as reader:
        write_object(path, {"a": 2})
        assert '"a": 1' in reader.read()
    assert read_object(path) == {"a": 2}
    assert [file.name for file in path.parent.iterdir()] == ["world.json"]


def test_a_file_that_cannot_be_written_leaves_the_old_one_and_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "world.json"
    write_object(path, {"a": 1})

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_object(path, {"a": 2})
    assert read_object(path) == {"a": 1}
    assert [file.name for file in tmp_path.iterdir()] == ["world.json"]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe"])
def test_damage_is_named_with_the_way_out(tmp_path: Path, content: bytes) -> None:
    write_private(tmp_path / "world.json", content)
    with pytest.raises(BrokenInvariantError, match=r"world\.json") as caught:
        read_object(tmp_path / "world.json")
    assert "local up" in str(caught.value.hint)


def test_no_file_is_no_object(tmp_path: Path) -> None:
    assert read_object(tmp_path / "world.json") is None


def test_a_damaged_file_of_the_door_names_what_writes_it(tmp_path: Path) -> None:
    file = tmp_path / "users-door.json"
    assert read_users_door(file) == {}
    file.write_text("{")
    with pytest.raises(BrokenInvariantError, match=r"users-door\.json is damaged") as raised:
        read_users_door(file)
    assert raised.value.hint == Hint(("stack", "up", "platform"), "writes it anew once the file is removed")
