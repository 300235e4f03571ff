"""Archives of a tag: what is read of them, and what is refused before it is used."""

import gzip
import hashlib
import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from hermesops.errors import RefusedError
from hermesops.machines.release.source import archive as archives
from hermesops.machines.release.source.archive import read_tree
from tests.support.releases.source_archive import small_agent


def tree_of(path: Path) -> archives.SourceTree:
    return read_tree(path.name, path.read_bytes(), hashlib.sha256(path.read_bytes()).hexdigest())


def packed(*members: tarfile.TarInfo) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for each in members:
            archive.addfile(each, io.BytesIO(bytes(each.size)))
    return content.getvalue()


def member(name: str, **values: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    for key, value in values.items():
        setattr(info, key, value)
    return info


def refused(content: bytes, match: str) -> None:
    with pytest.raises(RefusedError, match=match) as error:
        read_tree("tag.tar.gz", content, hashlib.sha256(content).hexdigest())
    assert "tag.tar.gz" in error.value.message


@pytest.mark.parametrize("name", ["tag.tar.gz", "tag.zip"])
def test_a_tree_is_read_below_its_top(tmp_path: Path, name: str) -> None:
    shape = small_agent()
    shape.packed(tmp_path / name)
    tree = tree_of(tmp_path / name)
    assert {path: file.content for path, file in tree.files.items()} == shape.tree()


def test_a_changed_archive_is_refused_by_both_hashes(tmp_path: Path) -> None:
    pin = small_agent().packed(tmp_path / "tag.tar.gz")
    content = pin.read(at_most=1 << 20) + b"\n"
    with pytest.raises(RefusedError, match=pin.sha256) as refusal:
        read_tree(pin.name, content, pin.sha256)
    assert hashlib.sha256(content).hexdigest() in refusal.value.message


@pytest.mark.parametrize(
    ("info", "match"),
    [
        (member("/etc/passwd"), "leads out of it"),
        (member("top/../../etc/passwd"), "leads out of it"),
        (member("top/./a"), "leads out of it"),
        (member("top/a\x1b[31m"), r"or is none: top/a\\x1b"),
        (member("top/a\\b"), "leads out of it"),
        (member(f"top/{'a' * 600}"), "or is none"),
        (member("top/a", type=tarfile.SYMTYPE, linkname="/etc/passwd"), "link that leads out"),
        (member("top/a", type=tarfile.SYMTYPE, linkname="../../etc/passwd"), "link that leads out"),
        (member("top/a", type=tarfile.SYMTYPE, linkname="b/../../../c"), "link that leads out"),
        (member("top/a", type=tarfile.LNKTYPE, linkname="top/b"), "no file, folder or symbolic link"),
        (member("top/a", type=tarfile.CHRTYPE), "no file, folder or symbolic link"),
        (member("top/a", type=tarfile.FIFOTYPE), "no file, folder or symbolic link"),
    ],
)
def test_an_entry_that_no_git_tree_has_is_named(info: tarfile.TarInfo, match: str) -> None:
    refused(packed(member("top/good"), info), match)


def test_links_within_the_tree_are_left_out_and_named() -> None:
    content = packed(member("top/a/good"), member("top/a/link", type=tarfile.SYMTYPE, linkname="../b"))
    tree = read_tree("tag.tar.gz", content, hashlib.sha256(content).hexdigest())
    assert (tuple(tree.files), tree.links) == (("a/good",), ("a/link",))


@pytest.mark.parametrize(
    ("limit", "most", "match"),
    [("_MAX_FILE", 10, "top/b|b of"), ("_MAX_TREE", 5, "more than"), ("_MAX_FILES", 1, "1 files")],
)
def test_a_huge_tree_is_refused(monkeypatch: pytest.MonkeyPatch, limit: str, most: int, match: str) -> None:
    content = packed(member("top/a", size=4), member("top/b", size=20))
    monkeypatch.setattr(archives, limit, most)
    refused(content, match)


def test_zeros_without_end_are_refused_by_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "_MAX_TREE", 1 << 20)
    monkeypatch.setattr(archives, "_MAX_FILES", 1)
    refused(gzip.compress(bytes(64 << 20), 1), "unpacks to more than 1 MiB")


@pytest.mark.parametrize(
    ("spoil", "match"),
    [
        (lambda content: content[:-40], "no whole tar.gz or zip"),
        (lambda content: b"PK\x03\x04" + content, "no whole tar.gz or zip"),
        (lambda _: b"", "no whole tar.gz or zip"),
        (lambda _: packed(), "holds no files"),
        (lambda _: packed(member("top/a"), member("top/a")), "twice"),
        (lambda _: packed(member("top/a"), member("other/a")), "more than one folder"),
    ],
)
def test_what_is_no_tree_is_named(spoil: Callable[[bytes], bytes], match: str) -> None:
    refused(spoil(packed(member("top/a", size=100_000))), match)


def test_links_out_of_a_zip_are_refused() -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        info = zipfile.ZipInfo("top/link")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, "../../etc/passwd")
    refused(content.getvalue(), "link that leads out")
