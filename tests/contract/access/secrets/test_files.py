"""Secrets in files: made private, refused when damaged, missing or open to others."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hermesops.access.secrets.backends.folder import FolderBackend
from hermesops.access.secrets.instance_keys import read_router_keys
from hermesops.access.secrets.keyring.key_ring import KeyRing
from hermesops.base.files.private_file import make_secret, read_secret
from hermesops.errors import RefusedError


def test_a_made_secret_is_its_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    file = tmp_path / "keys" / "x.key"
    before = os.umask(0)
    try:
        assert make_secret(file, "secret\n")
    finally:
        os.umask(before)
    assert file.stat().st_mode & 0o777 == 0o600
    assert read_secret(file, what="test key") == "secret"
    assert [entry.name for entry in file.parent.iterdir()] == ["x.key"]


def test_a_secret_is_never_replaced(tmp_path: Path) -> None:
    file = tmp_path / "x.key"
    assert make_secret(file, "first")
    assert not make_secret(file, "second")
    assert file.read_text() == "first"
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.key"]


def test_a_secret_that_is_there_leaves_its_folder_as_it_was(tmp_path: Path) -> None:
    """Else each operation that may need a key would have the units restarted that read the folder."""
    file = tmp_path / "x.key"
    make_secret(file, "first")
    os.utime(tmp_path, (1, 1))
    assert not make_secret(file, "second")
    assert FolderBackend(tmp_path).make("x.key", "third") == "first"
    assert tmp_path.stat().st_mtime == 1


def test_a_secret_that_others_can_read_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x.key"
    make_secret(file, "secret")
    file.chmod(0o640)
    with pytest.raises(RefusedError, match="read by others") as refused:
        read_secret(file, what="test key")
    assert str(refused.value.hint) == f"chmod 600 {file}"


@pytest.mark.parametrize(
    ("content", "message"), [(b"", "is empty"), (b" \n", "is empty"), (b"\xff\xfe", "is not text")]
)
def test_a_secret_file_with_nothing_usable_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "x.key"
    make_secret(file, "")
    file.write_bytes(content)
    with pytest.raises(RefusedError, match=message):
        read_secret(file, what="test key")


def test_a_missing_secret_is_named(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=r"the test key is missing: no file .*x\.key"):
        read_secret(tmp_path / "x.key", what="test key")


def test_a_key_ring_is_made_once_and_read_ever_after(tmp_path: Path) -> None:
    file = tmp_path / "keys" / "registry.key"
    with pytest.raises(RefusedError, match="is missing"):
        KeyRing.load(file)
    with ThreadPoolExecutor(4) as pool:
        rings = list(pool.map(lambda _: KeyRing.load(file, create=True), range(4)))
    sealed = rings[0].seal("x", place="p")
    assert [ring.unseal(sealed, place="p") for ring in [*rings, KeyRing.load(file)]] == ["x"] * 5


@pytest.mark.parametrize(
    "text",
    [
        "no json",
        "[]",
        "{}",
        '{"current": "a", "keys": {}}',
        '{"current": "a", "keys": {"a": "c2hvcnQ="}}',
        '{"current": "a", "keys": {"a": "%"}}',
        '{"current": "a", "keys": {"a": 7}}',
    ],
)
def test_a_damaged_key_ring_is_named_and_not_repeated(tmp_path: Path, text: str) -> None:
    file = tmp_path / "registry.key"
    make_secret(file, text)
    with pytest.raises(RefusedError, match="is damaged") as refused:
        KeyRing.load(file, create=True)
    assert refused.value.__cause__ is None
    assert text not in str(refused.value)


def test_a_router_key_that_is_being_replaced_stands_below_the_new_one(tmp_path: Path) -> None:
    file = tmp_path / "model.key"
    make_secret(file, f"{'n' * 32}\n\n{'o' * 32}\n")
    assert read_router_keys(file) == (b"n" * 32, b"o" * 32)
    file.unlink()
    make_secret(file, f"{'n' * 32}\n{'o' * 31}")
    with pytest.raises(RefusedError, match="shorter than 32 bytes"):
        read_router_keys(file)


def test_a_short_router_key_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "model.key"
    make_secret(file, "k" * 31)
    with pytest.raises(RefusedError, match="shorter than 32 bytes"):
        read_router_keys(file)
