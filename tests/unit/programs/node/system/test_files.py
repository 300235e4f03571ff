import os
from pathlib import Path

import pytest

from hermesops.programs.node.system import files
from hermesops.programs.node.system.files import Access
from hermesops.wire.errors import BadRequestError, NotReadyError

_MINE = Access(0o600, os.geteuid(), os.getegid())


def test_a_link_in_the_place_of_a_file_is_replaced_and_its_target_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("precious")
    (tmp_path / "config").symlink_to(target)
    assert files.write_if_changed(tmp_path / "config", b"new", _MINE)
    assert target.read_text() == "precious"
    assert not (tmp_path / "config").is_symlink()


def test_a_link_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("secret")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(NotReadyError, match="symbolic links"):
        files.read(tmp_path / "link")


def test_a_link_to_a_folder_is_not_entered(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "home").symlink_to(tmp_path / "real")
    with pytest.raises(NotReadyError, match="Not a directory"), files.opened_folder(tmp_path / "home"):
        pass


def test_writing_the_same_again_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a"
    assert files.write_if_changed(path, b"x", _MINE)
    before = path.stat()
    assert not files.write_if_changed(path, b"x", _MINE)
    assert path.stat().st_ino == before.st_ino


def test_wrong_rights_are_repaired(tmp_path: Path) -> None:
    path = tmp_path / "a"
    files.write_if_changed(path, b"x", _MINE)
    path.chmod(0o644)
    assert files.write_if_changed(path, b"x", _MINE)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="space"):
        files.write_if_changed(tmp_path / "a", b"new", _MINE)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a", "old")]


def test_content_and_name_are_on_the_disk_before_a_write_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this order: the whole content, the name, the folder that holds the name."""
    done: list[tuple[str, str]] = []
    sync, replace = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        done.append(("synced", "folder" if path == tmp_path else path.read_text()))
        sync(descriptor)

    def renamed(source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        done.append(("renamed", target))
        replace(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", renamed)
    files.write_if_changed(tmp_path / "a", b"whole", _MINE)
    assert done == [("synced", "whole"), ("renamed", "a"), ("synced", "folder")]


def test_where_a_link_points_is_on_the_disk_before_this_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moves: list[tuple[Path, Path]] = []
    link = tmp_path / "current"
    link.symlink_to("releases/old")
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: moves.append((Path(f"/proc/self/fd/{descriptor}").readlink(), link.readlink()))
    )
    files.point(link, "releases/new")
    assert moves == [(tmp_path, Path("releases/new"))]


def test_a_taken_file_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "payload"
    path.touch(0o600)
    path.write_bytes(b"secret")
    assert files.take(path, limit=100) == b"secret"
    assert not path.exists()


@pytest.mark.parametrize("mode", [0o640, 0o620, 0o610, 0o604, 0o602, 0o601])
def test_a_file_that_others_may_use_is_refused_and_gone(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "payload"
    path.write_bytes(b"secret")
    path.chmod(mode)
    with pytest.raises(BadRequestError, match="0600"):
        files.take(path, limit=100)
    assert not path.exists()


def test_a_file_of_somebody_elses_is_refused_and_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "payload"
    path.touch(0o600)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(BadRequestError, match="must be root's"):
        files.take(path, limit=100)
    assert not path.exists()


def test_a_file_that_is_too_large_is_refused_and_gone(tmp_path: Path) -> None:
    path = tmp_path / "payload"
    path.touch(0o600)
    path.write_bytes(b"x" * 101)
    with pytest.raises(BadRequestError, match="larger"):
        files.take(path, limit=100)
    assert not path.exists()


def test_taking_a_link_removes_the_link_and_not_its_target(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.touch(0o600)
    (tmp_path / "payload").symlink_to(target)
    with pytest.raises(BadRequestError, match="symbolic links"):
        files.take(tmp_path / "payload", limit=100)
    assert target.exists()
    assert not (tmp_path / "payload").is_symlink()


def test_the_end_of_a_file_below_a_folder_is_read(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs/agent.log").write_text("first\nlast\n")
    with files.opened_folder(tmp_path) as home:
        assert files.tail(home, "logs/agent.log", limit=5) == b"last\n"
        assert files.tail(home, "logs/other.log", limit=5) == b""


def test_neither_a_link_nor_a_pipe_is_read_below_a_folder(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "logs").mkdir()
    with files.opened_folder(tmp_path) as home:
        (tmp_path / "logs/agent.log").symlink_to(tmp_path / "secret")
        assert files.tail(home, "logs/agent.log", limit=100) == b""
        (tmp_path / "logs/agent.log").unlink()
        os.mkfifo(tmp_path / "logs/agent.log")
        assert files.tail(home, "logs/agent.log", limit=100) == b""
        (tmp_path / "logs/agent.log").unlink()
        (tmp_path / "logs").rmdir()
        (tmp_path / "logs").symlink_to(tmp_path)
        assert files.tail(home, "logs/agent.log", limit=100) == b""


def test_a_log_is_read_on_by_whole_lines(tmp_path: Path) -> None:
    log = tmp_path / "logs/a.log"
    log.parent.mkdir()
    log.write_bytes(b"one\ntwo\nthr")
    with files.opened_folder(tmp_path) as folder:
        first = files.read_on(folder, "logs/a.log", inode=0, offset=0, limit=100)
        assert first is not None
        assert (first.data, first.end, first.inode) == (b"one\ntwo\n", 8, log.stat().st_ino)
        log.write_bytes(b"one\ntwo\nthree\n")
        second = files.read_on(folder, "logs/a.log", inode=first.inode, offset=first.end, limit=100)
        assert second is not None
        assert (second.data, second.end) == (b"three\n", 14)
        last = files.read_on(folder, "logs/a.log", inode=first.inode, offset=second.end, limit=100)
        assert last is not None
        assert (last.data, last.end) == (b"", 14)


def test_only_the_end_of_what_is_new_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"0123456\n89\n")
    with files.opened_folder(tmp_path) as folder:
        piece = files.read_on(folder, "a.log", inode=0, offset=0, limit=5)
        assert piece is not None
        assert (piece.data, piece.end) == (b"6\n89\n", 11)
        endless = files.read_on(folder, "a.log", inode=0, offset=0, limit=3)
        assert endless is not None
        assert endless.end == 11
        assert files.read_on(folder, "b.log", inode=0, offset=0, limit=5) is None


def test_sizes_are_of_plain_files_that_no_link_leads_to(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a").write_bytes(b"123")
    (tmp_path / "link").symlink_to(tmp_path / "in/a")
    (tmp_path / "linked").symlink_to(tmp_path / "in")
    os.mkfifo(tmp_path / "pipe")
    with files.opened_folder(tmp_path) as folder:
        assert files.size(folder, "in/a") == 3
        assert [files.size(folder, name) for name in ("link", "linked/a", "pipe", "in", "none", "none/a")] == [None] * 6
