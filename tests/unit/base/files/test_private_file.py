"""Files with secrets are written whole, and nothing of a secret is left beside them."""

import fcntl
import os
import signal
from pathlib import Path

import pytest

from hermesops.base.files.private_file import make_secret, replace_secret
from hermesops.errors import NotWrittenError


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


@pytest.mark.parametrize("write", [make_secret, replace_secret])
def test_a_draft_that_a_killed_process_left_is_removed_by_the_next_write(
    write: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = tmp_path / "registry.key"
    assert callable(write)
    child = os.fork()
    if not child:
        monkeypatch.setattr("os.fsync", lambda _: os.kill(os.getpid(), signal.SIGKILL))
        write(key, "old")
        os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    assert len(names(tmp_path)) == 1, "a draft was left"
    (tmp_path / ".registry.key.kept").write_text("no draft")
    write(key, "new")
    assert names(tmp_path) == [".registry.key.kept", "registry.key"]
    assert (key.read_text(), key.stat().st_mode & 0o777) == ("new", 0o600)


def test_a_draft_that_another_process_writes_is_left_alone(tmp_path: Path) -> None:
    draft = tmp_path / ".api.key.0123456789ab"
    with draft.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        replace_secret(tmp_path / "api.key", "ours")
        assert names(tmp_path) == [".api.key.0123456789ab", "api.key"]


def test_a_write_that_fails_leaves_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(NotWrittenError, match="the disk is full"):
        replace_secret(tmp_path / "api.key", "ours")
    assert names(tmp_path) == []


def test_of_two_makers_the_first_one_wins(tmp_path: Path) -> None:
    assert make_secret(tmp_path / "deep" / "key", "first")
    assert not make_secret(tmp_path / "deep" / "key", "second")
    assert (tmp_path / "deep" / "key").read_text() == "first"
    assert names(tmp_path / "deep") == ["key"]
