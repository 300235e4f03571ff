"""Builds SQLite for releases: fetches the pinned source, compiles it, and asks the library for its version.

The same source gives the same bytes with the same compiler. It is compiled in an empty folder, with an environment of
two variables; a compiler runs nothing of its source.
"""

import hashlib
import io
import re
import subprocess
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import httpx

from hermesops.base.files.scratch_folder import scratch_folder
from hermesops.base.network.http import blocking_client
from hermesops.errors import HermesError, Hint, RefusedError, UnavailableError
from hermesops.machines.image.packages.download import NEWEST_GLIBC
from hermesops.machines.release import sqlite
from hermesops.machines.release.source.archive import refuse_changed
from hermesops.machines.release.sqlite import Source
from hermesops.wire.documents.lock import Blob, Lock

Fetch = Callable[[Source], bytes]
"""Reads the archive of a source.

Raises:
    UnavailableError: It cannot be had.
"""

Files = Mapping[str, bytes]

_ARCHIVE_BYTES = 32 << 20
_SOURCE_BYTES = 64 << 20
_FETCHED_S = 120.0
_COMPILED_S = 3600.0
"""Half a minute of an idle core; ``-O2`` takes twice that."""

_DEFINED = (
    *("ENABLE_COLUMN_METADATA", "ENABLE_DBSTAT_VTAB", "ENABLE_FTS3", "ENABLE_FTS3_PARENTHESIS"),
    *("ENABLE_FTS3_TOKENIZER", "ENABLE_FTS4", "ENABLE_FTS5", "ENABLE_LOAD_EXTENSION", "ENABLE_MATH_FUNCTIONS"),
    *("ENABLE_PREUPDATE_HOOK", "ENABLE_RTREE", "ENABLE_SESSION", "ENABLE_STMTVTAB", "ENABLE_UNLOCK_NOTIFY"),
    *("HAVE_ISNAN", "LIKE_DOESNT_MATCH_BLOBS", "MAX_SCHEMA_RETRY=25", "MAX_VARIABLE_NUMBER=250000"),
    *("MAX_DEFAULT_PAGE_SIZE=32768", "OMIT_LOOKASIDE", "SECURE_DELETE", "SOUNDEX", "TEMP_STORE=1", "THREADSAFE=1"),
    *("USE_URI", "ENABLE_UPDATE_DELETE_LIMIT"),
)
"""As ``PRAGMA compile_options`` of Debian 12's 3.40.1-2 lists them. The last one needs a parser made for it, which
upstream's amalgamation has not."""

OPTIONS = (
    *("-O1", "-fPIC", "-shared", "-fno-strict-aliasing", "-fno-ident", "-g0", "-Wl,-soname,libsqlite3.so.0"),
    *("-Wl,--build-id=none", "-Wl,-z,relro,-z,now", "-Wl,-s", *(f"-DSQLITE_{name}" for name in _DEFINED)),
)
_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}

_ASKS = """import ctypes, sys
library = ctypes.CDLL(sys.argv[1])
library.sqlite3_libversion.restype = ctypes.c_char_p
print(library.sqlite3_libversion().decode(), library.sqlite3_threadsafe())
"""
_GLIBC = re.compile(rb"GLIBC_2\.(\d{1,3})", re.ASCII)


@dataclass(frozen=True)
class SqliteBuilder:
    """Builds the SQLite of releases.

    Attributes:
        sources: The first one that can be fetched is built.
        cache: Folder of libraries that were built here, by source, options and compiler.
        fetch: Reads the archive of a source.
    """

    sources: Sequence[Source]
    cache: Path
    fetch: Fetch

    def files(self, known: Sequence[Lock], read: Callable[[Blob], bytes], report: Callable[[str], None]) -> Files:
        """The files of SQLite beside a release's packages.

        Args:
            known: Releases of this store: a library of the same source is taken from there, whichever compiler made it.
            read: Reads a file of the store.
            report: Narrates the build.

        Raises:
            UnavailableError: No source can be fetched.
            RefusedError: A source is another one than its hash says or is too old, or this computer cannot build it.
        """
        for source in self.sources:
            if files := _kept(_described(source), known, read) or self._cached(source):
                return files
        return self._cached(self._built(report))

    def prepare(self, report: Callable[[str], None]) -> None:
        """Build the library of ``files`` unless this computer has one already; raises as that."""
        if not any(self._cached(source) for source in self.sources):
            self._built(report)

    def _built(self, report: Callable[[str], None]) -> Source:
        source, archive = self._fetched(report)
        report("compiling SQLite: half a minute of a core, once on this computer")
        _build(source_in(archive, source.url), self._place(source))
        return source

    def _cached(self, source: Source) -> Files:
        """The files that this computer has built from a source; none if it has not."""
        for library in self._place(source).glob("libsqlite3-*.so"):
            return sqlite.files_of(library.stem.split("-")[1], library.read_bytes(), _described(source))
        return {}

    def _place(self, source: Source) -> Path:
        return self.cache / hashlib.sha256(_described(source) + _compiler().encode()).hexdigest()[:16]

    def _fetched(self, report: Callable[[str], None]) -> tuple[Source, bytes]:
        """The first source whose archive is the pinned one; each other one is reported."""
        failures: list[HermesError] = []
        for source in self.sources:
            report(f"fetching SQLite's source from {source.url}")
            try:
                archive = self.fetch(source)
                refuse_changed(source.url, archive, source.sha256)
            except (UnavailableError, RefusedError) as error:
                failures.append(error)
                report(error.message)
            else:
                return source, archive
        problem = "; ".join(failure.message for failure in failures) or "no source is named"
        hint = Hint("name a mirror of it in setting release.sqlite")
        if any(isinstance(failure, RefusedError) for failure in failures):  # to ask again does not help
            raise RefusedError(f"no source of SQLite has the pinned archive: {problem}", hint=hint)
        raise UnavailableError(f"SQLite's source cannot be fetched: {problem}", hint=hint)


def download(source: Source) -> bytes:
    """Read a source's archive from its address, which must not redirect.

    Raises:
        UnavailableError: It does not answer, or with too much, or with something else.
    """
    data = bytearray()
    try:
        with blocking_client(timeout=_FETCHED_S) as client, client.stream("GET", source.url) as answer:
            answer.raise_for_status()
            for piece in answer.iter_bytes():
                data += piece
                if len(data) > _ARCHIVE_BYTES:
                    raise UnavailableError(f"{source.url} has more than {_ARCHIVE_BYTES} bytes")
    except httpx.HTTPError as error:
        raise UnavailableError(f"{source.url}: {error or type(error).__name__}") from error
    return bytes(data)


def source_in(archive: bytes, name: str) -> bytes:
    """The amalgamation in a zip or tar archive.

    Raises:
        RefusedError: The archive is damaged, or does not contain exactly one ``sqlite3.c``.
    """
    try:
        sources = list(_sources(io.BytesIO(archive)))
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, OSError, ValueError) as error:
        raise RefusedError(f"{name} is no whole archive: {error}") from error
    if len(sources) != 1 or len(sources[0]) > _SOURCE_BYTES:
        raise RefusedError(f"{name} holds {len(sources)} files sqlite3.c, or a too large one: one is expected")
    return sources[0]


def _sources(archive: IO[bytes]) -> Iterator[bytes]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            for name in packed.namelist():
                if name.rpartition("/")[2] == "sqlite3.c":
                    with packed.open(name) as file:
                        yield file.read(_SOURCE_BYTES + 1)
        return
    archive.seek(0)
    with tarfile.open(fileobj=archive) as tar:
        for member in tar:
            stream = tar.extractfile(member) if member.name.rpartition("/")[2] == "sqlite3.c" else None
            if stream is not None:
                yield stream.read(_SOURCE_BYTES + 1)


def _described(source: Source) -> bytes:
    return sqlite.description(source, OPTIONS)


def _kept(described: bytes, known: Sequence[Lock], read: Callable[[Blob], bytes]) -> Files:
    digest = hashlib.sha256(described).hexdigest()
    for lock in known:
        if any(blob.name == sqlite.DESCRIPTION and blob.sha256 == digest for blob in lock.site):
            return {blob.name: read(blob) for blob in lock.site if sqlite.is_of_sqlite(blob.name)}
    return {}


def _build(source: bytes, place: Path) -> None:
    with scratch_folder(place.parent, ".building-") as folder:
        (folder / "sqlite3.c").write_bytes(source)
        _run(folder, "cc", *OPTIONS, "-o", "library.so", "sqlite3.c", "-lm")
        (folder / "sqlite3.c").unlink()
        library = folder / f"libsqlite3-{_version(folder)}-{sqlite.ARCHITECTURE}.so"
        (folder / "library.so").rename(library)
        if not place.exists():  # another process may have built it meanwhile
            folder.rename(place)
            folder.mkdir()


def _version(folder: Path) -> str:
    """Ask the library for its version, and refuse one that must not get onto machines."""
    version, threadsafe = _run(folder, "python3", "-I", "-c", _ASKS, "./library.so").split()
    if not sqlite.is_sound(version):
        raise RefusedError(
            f"SQLite {version} can corrupt databases with a write-ahead log", hint="name a source of 3.51.3 or later"
        )
    newest = max((int(minor) for minor in _GLIBC.findall((folder / "library.so").read_bytes())), default=0)
    if newest > NEWEST_GLIBC or threadsafe != "1":
        raise RefusedError(
            f"this computer's compiler makes a SQLite for glibc 2.{newest}, and machines have 2.{NEWEST_GLIBC}",
            hint="build on Debian 12, or take a release from another operator's store",
        )
    return version


def _compiler() -> str:
    return _run(Path("/"), "cc", "--version").splitlines()[0]


def _run(folder: Path, *words: str) -> str:
    try:
        done = subprocess.run(
            words, cwd=folder, env=_ENVIRONMENT, capture_output=True, text=True, timeout=_COMPILED_S, check=False
        )
    except FileNotFoundError:
        raise RefusedError(f"{words[0]} is not installed", hint="apt install gcc libc6-dev python3") from None
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"{words[0]} did not end within {_COMPILED_S:g} s") from None
    if done.returncode:
        raise RefusedError(f"SQLite cannot be built: {words[0]}: {done.stderr.strip()[-300:]}")
    return done.stdout
