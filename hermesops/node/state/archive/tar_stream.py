"""An agent's state as a stream: a tar archive that ends with what it should amount to.

It runs as the agent's own user and writes a pipe; ``node.state.archive.unpack`` reads it. The same content gives the
same bytes up to the archive's ending, in whatever order and whenever its files were written: see
``node.state.archive.trailer``.
"""

import hashlib
import io
import os
import sqlite3
import stat
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from hermesops.node.errors import NotReadyError
from hermesops.node.state import contents, databases
from hermesops.node.state.archive import trailer
from hermesops.node.state.archive.row_counts import Counting
from hermesops.node.state.contents import Item, Walk
from hermesops.node.state.digest import DATABASE, Digest, is_document, is_hashed

BUFFER = 1 << 20
DOCUMENT_BYTES = 16 << 20

AGENTS_OWN = frozenset(
    {
        DATABASE,
        b"cron/executions.db",
        b"kanban.db",
        b"memory_store.db",
        b"projects.db",
        b"response_store.db",
        b"verification_evidence.db",
    }
)
"""Databases without which a copy is none. Another one that stays locked is left out, and counted."""


@dataclass(frozen=True)
class Packed:
    """What a state amounts to.

    Attributes:
        bytes: Of its files' content.
        left_out: Files that could not be copied, or not whole.
    """

    state: dict[str, dict[str, Any]]
    bytes: int
    files: int
    left_out: int


class _Hashing:
    """Reads a file for tarfile and for a digest at once.

    Its size stands in the archive already, so one that shrinks meanwhile goes on with zeros: it is the agent's, which
    would otherwise have no copy for as long as it cuts a log at the wrong moment.

    Attributes:
        is_whole: Whether it did not shrink.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()
        self.is_whole = True

    def read(self, size: int = -1, /) -> bytes:
        data = self._file.read(size)
        if len(data) < size:
            self.is_whole = False
            data += bytes(size - len(data))
        self.sha256.update(data)
        return data


def look(home: Path, *, is_alone: bool = False) -> tuple[dict[str, dict[str, Any]], int]:
    """The digest of a home's state, and the bytes that everything in the home takes on the disk.

    Args:
        home: Which.
        is_alone: Nobody has its databases open, or will.

    Raises:
        NotReadyError: The database stayed locked.
    """
    walk, digest = Walk(home), Digest()
    for item in walk.items():
        if item.name == DATABASE:
            _look_at_database(home, digest, is_alone=is_alone)
        elif not item.is_folder and (is_hashed(item.name) or is_document(item.name)):
            try:
                with os.fdopen(contents.opened(home, item.name), "rb") as file:
                    _take_in(digest, item, file)
            except OSError:
                continue  # a copy would leave it out
    return digest.told(), walk.used


def _look_at_database(home: Path, digest: Digest, *, is_alone: bool) -> None:
    path = databases.path_of(home, DATABASE)
    try:
        with databases.opened(path, is_alone=is_alone) as held:
            held.execute("BEGIN")  # sessions and messages of one moment
            digest.database(held)
    except sqlite3.DatabaseError as error:
        if databases.is_locked(error):
            raise NotReadyError(f"{os.fsdecode(DATABASE)} is locked") from error
        digest.no_database()


def unreadable(home: Path) -> str:
    """Why the agent's database cannot be read, where nobody has it open; empty where it can."""
    try:
        with databases.opened(databases.path_of(home, DATABASE), is_alone=True) as held:
            Digest().database(held)
    except sqlite3.DatabaseError as error:
        return str(error)
    return ""


def _take_in(digest: Digest, item: Item, file: BinaryIO) -> None:
    if is_document(item.name):
        data = file.read(DOCUMENT_BYTES + 1)
        digest.document(item.name, data if len(data) <= DOCUMENT_BYTES else b"")
    elif not contents.is_database(file.fileno()):  # a copy of one has the same rows, and other bytes
        digest.file(item.name, hashlib.file_digest(file, "sha256").hexdigest())  # type: ignore[arg-type]  # as typeshed has it


def pack(home: Path, out: BinaryIO) -> Packed:
    """Write a home's state to a stream while the agent may be running.

    Raises:
        NotReadyError: A database of the agent's stayed locked, or there is no room for its copy.
        OSError: Nobody reads the stream.
    """
    walk, digest, times, files, size = Walk(home), Digest(), trailer.Times(), 0, 0
    with (
        _workplace(home) as workplace,
        tarfile.open(
            fileobj=out,
            mode="w|",
            format=tarfile.GNU_FORMAT,
            encoding="utf-8",
            errors="surrogateescape",
            bufsize=BUFFER,
        ) as archive,
    ):
        for item in walk.items():
            if item.is_folder:
                archive.addfile(_entry(item, tarfile.DIRTYPE, 0))
                continue
            try:
                with _readable(home, item, workplace, digest) as file:
                    length = os.fstat(file.fileno()).st_size
                    walk.left_out += not _add(archive, item, file, length, digest)
            except _LeftOutError:
                walk.left_out += 1
                continue
            times.add(item.mtime_ns)
            files, size = files + 1, size + length
        packed = Packed(digest.told(), size, files, walk.left_out)
        trailer.write(archive, packed.state, files, times)
    return packed


class _LeftOutError(Exception):
    """A file cannot be copied, and the rest can."""


@contextmanager
def _workplace(home: Path) -> Iterator[Path]:
    folder = home / os.fsdecode(contents.OURS) / "work"
    empty(folder)  # what a killed run left
    folder.mkdir(mode=0o700, parents=True)
    try:
        yield folder
    finally:
        contents.remove(folder)


def empty(folder: Path) -> None:
    """Make a name in our own folder free, whatever is there; links are removed, not followed."""
    for path in (folder.parent, folder):
        if path.is_symlink() or (path.exists() and (path == folder or not path.is_dir())):
            contents.remove(path)


@contextmanager
def _readable(home: Path, item: Item, workplace: Path, digest: Digest) -> Iterator[BinaryIO]:
    try:
        file = os.fdopen(contents.opened(home, item.name), "rb")
    except OSError as error:
        raise _LeftOutError from error
    with file:
        if not contents.is_database(file.fileno()):
            if item.name == DATABASE:
                digest.no_database()
            yield file
            return
        copied = workplace / "database"
        if not _copied(home, item, copied):  # damaged: its bytes are all there is to save
            if item.name == DATABASE:
                digest.no_database()
            yield file
            return
        if item.name != DATABASE:
            with copied.open("rb") as whole:
                copied.unlink()
                yield whole
            return
        with Counting(copied) as counting:
            with copied.open("rb") as whole:
                yield whole
            try:
                digest.add(counting.tables())
            except sqlite3.DatabaseError:
                digest.no_database()
        copied.unlink()


def _copied(home: Path, item: Item, target: Path) -> bool:
    target.unlink(missing_ok=True)
    try:
        databases.copy(databases.path_of(home, item.name), target)
    except sqlite3.DatabaseError as error:
        target.unlink(missing_ok=True)
        if databases.is_of_disk(error):
            raise NotReadyError(f"there is no room for a copy of {os.fsdecode(item.name)!r}: {error}") from error
        if databases.is_locked(error):
            if item.name in AGENTS_OWN:
                raise NotReadyError(f"{os.fsdecode(item.name)} is locked") from error
            raise _LeftOutError from error
        return False
    return True


def _add(archive: tarfile.TarFile, item: Item, file: BinaryIO, length: int, digest: Digest) -> bool:
    """Add a file; whether it is whole."""
    entry = _entry(item, tarfile.REGTYPE, length)
    if is_document(item.name) and length <= DOCUMENT_BYTES:
        data = file.read(length)
        entry.size = len(data)
        digest.document(item.name, data)
        archive.addfile(entry, io.BytesIO(data))
        return True
    hashing = _Hashing(file)
    archive.addfile(entry, hashing)
    if is_document(item.name):
        digest.document(item.name, b"")
    elif is_hashed(item.name) and not contents.is_database(file.fileno()):
        digest.file(item.name, hashing.sha256.hexdigest())
    return hashing.is_whole


def _entry(item: Item, kind: bytes, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(os.fsdecode(item.name))
    entry.type, entry.size = kind, size
    entry.mode = 0o700 if item.is_folder else stat.S_IMODE(item.mode) & 0o700
    return entry
