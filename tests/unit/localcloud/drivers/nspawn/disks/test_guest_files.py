"""Writing into a machine's disk: never out of it, whatever links an image holds."""

from pathlib import Path

import pytest

from hermesops.errors import RefusedError
from hermesops.localcloud.drivers.nspawn.disks import guest_files


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    (tmp_path / "outside").mkdir()
    return tmp_path / "root"


def test_a_file_is_written_with_its_mode_and_its_parents(root: Path) -> None:
    guest_files.write(root, "/etc/deep/file", b"x", mode=0o640)
    path = root / "etc/deep/file"
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"x", 0o640)
    assert (root / "etc").stat().st_mode & 0o777 == 0o755


def test_a_hidden_folder_is_closed_to_others(root: Path) -> None:
    guest_files.write(root, "/root/.ssh/authorized_keys", b"key")
    assert (root / "root/.ssh").stat().st_mode & 0o777 == 0o700


def test_a_link_in_the_place_of_a_file_is_replaced_not_followed(root: Path) -> None:
    target = root.parent / "outside/victim"
    target.write_bytes(b"precious")
    (root / "file").symlink_to(target)
    guest_files.write(root, "/file", b"new")
    assert target.read_bytes() == b"precious"
    assert (root / "file").read_bytes() == b"new"
    assert not (root / "file").is_symlink()


@pytest.mark.parametrize(
    "work", [lambda r: guest_files.write(r, "/etc/x", b""), lambda r: guest_files.remove(r, "/etc/x")]
)
def test_a_link_on_the_way_is_refused(root: Path, work: "object") -> None:
    (root / "etc").symlink_to(root.parent / "outside")
    (root.parent / "outside/x").write_bytes(b"precious")
    assert callable(work)
    with pytest.raises(RefusedError, match="leads through a link"):
        work(root)
    assert (root.parent / "outside/x").read_bytes() == b"precious"


@pytest.mark.parametrize("path", ["etc/x", "/", "/etc/../../outside/x", ""])
def test_a_path_that_is_not_absolute_and_plain_is_refused(root: Path, path: str) -> None:
    with pytest.raises(RefusedError, match="not an absolute path"):
        guest_files.write(root, path, b"")
    assert list((root.parent / "outside").iterdir()) == []


def test_removing_what_is_not_there_is_no_failure(root: Path) -> None:
    guest_files.remove(root, "/no/such/file")
    guest_files.remove_tree(root / "nothing")
