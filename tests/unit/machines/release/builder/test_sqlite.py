"""SQLite of releases is built from its pinned source alone, the same each time, and no old one gets onto machines."""

import hashlib
import io
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hermesops.errors import RefusedError, UnavailableError
from hermesops.machines.release import sqlite
from hermesops.machines.release.blobs import blob_of
from hermesops.machines.release.builder.sqlite import SqliteBuilder, source_in
from hermesops.machines.release.sqlite import Source, is_sound, sources_in, version_of
from tests.support.hostile.parsers import LOCK

TOY = 'const char *sqlite3_libversion(void) {{ return "{}"; }}\nint sqlite3_threadsafe(void) {{ return {}; }}\n'
"""As much of SQLite as is asked."""


def archive_of(version: str = "3.53.4", threadsafe: int = 1, name: str = "sqlite-amalgamation/sqlite3.c") -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(zipfile.ZipInfo(name), TOY.format(version, threadsafe))
    return content.getvalue()


def builder_of(cache: Path, archives: Sequence[bytes | None], pinned: Sequence[str] = ()) -> SqliteBuilder:
    """Has sources with these archives; one that is ``None`` does not answer."""
    digests = [hashlib.sha256(archive or b"").hexdigest() for archive in archives]
    sources = [Source(f"https://{n}", digest) for n, digest in enumerate(pinned or digests)]

    def fetch(source: Source) -> bytes:
        archive = archives[sources.index(source)]
        if archive is None:
            raise UnavailableError(f"{source.url} does not answer")
        return archive

    return SqliteBuilder(sources, cache, fetch)


def files_of(builder: SqliteBuilder) -> dict[str, bytes]:
    return dict(builder.files((), lambda _: b"", lambda _: None))


def test_two_builds_have_the_same_bytes_and_the_second_source_serves_where_the_first_is_silent(tmp_path: Path) -> None:
    files = files_of(builder_of(tmp_path / "one", [archive_of()]))
    two = files_of(builder_of(tmp_path / "two", [archive_of()]))
    assert files == two
    assert sorted(files) == ["hermes-sqlite.json", "hermes-sqlite.pth", "libsqlite3-3.53.4-x86_64.so"]
    assert version_of(blob_of(name, content) for name, content in files.items()) == "3.53.4"
    other = files_of(builder_of(tmp_path / "three", [None, archive_of()]))
    assert other["libsqlite3-3.53.4-x86_64.so"] == files["libsqlite3-3.53.4-x86_64.so"]


def test_a_built_one_and_one_of_the_store_ask_no_source(tmp_path: Path) -> None:
    archive = archive_of()
    files = files_of(builder_of(tmp_path, [archive]))
    silent = builder_of(tmp_path, [None], [hashlib.sha256(archive).hexdigest()])
    assert files_of(silent) == files
    elsewhere = SqliteBuilder(silent.sources, tmp_path / "elsewhere", silent.fetch)
    blobs = {blob_of(name, content): content for name, content in files.items()}
    known = replace(LOCK, site=tuple(blobs))
    assert dict(elsewhere.files((known,), blobs.__getitem__, lambda _: None)) == files
    with pytest.raises(UnavailableError, match="cannot be fetched: https://0 does not answer"):
        files_of(elsewhere)


@pytest.mark.parametrize(
    ("archive", "why"),
    [
        (archive_of("3.51.2"), "can corrupt databases"),
        (archive_of("3.52.0"), "can corrupt databases"),
        (archive_of("nonsense"), "can corrupt databases"),
        (archive_of(threadsafe=2), "glibc"),
        (archive_of(name="sqlite3.h"), "holds 0 files"),
        (b"no archive", "no whole archive"),
    ],
)
def test_what_must_not_get_onto_machines_is_refused(tmp_path: Path, archive: bytes, why: str) -> None:
    with pytest.raises(RefusedError, match=why):
        files_of(builder_of(tmp_path, [archive]))
    assert not list(tmp_path.glob("[!.]*/*"))


def test_another_source_than_the_pinned_one_is_refused_and_the_next_one_is_asked(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=r"no source .* https://0 is not the named file"):
        files_of(builder_of(tmp_path, [archive_of()], ["0" * 64]))
    pinned = hashlib.sha256(archive_of()).hexdigest()
    assert files_of(builder_of(tmp_path, [b"a page", archive_of()], [pinned, pinned]))


def test_an_interpreter_that_cannot_load_it_ends(tmp_path: Path) -> None:
    files = sqlite.files_of("3.53.4", b"no library", b"{}")
    line = files[sqlite.LOADER].decode()
    code = f"sitedir = {str(tmp_path)!r}\n{line}print('goes on')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (70, "")
    assert done.stderr.startswith("hermes-sqlite: ")


def test_versions_and_settings() -> None:
    assert [is_sound(version) for version in ("3.51.3", "3.53.4", "3.60.0", "4.0.0", "")] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert sources_in("") == ()
    assert sources_in(f"https://m/a#sha256={'1' * 64}, https://n/b#sha256={'2' * 64}") == (
        Source("https://m/a", "1" * 64),
        Source("https://n/b", "2" * 64),
    )
    assert source_in(archive_of(), "it") == TOY.format("3.53.4", 1).encode()
