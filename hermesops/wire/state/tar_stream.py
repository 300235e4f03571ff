"""An agent's state as a stream: a tar archive that ends with times, counts and digests of its contents.

It is written into a pipe as the agent's own user; ``node.state.unpack`` reads it. The same content gives the same bytes
up to the archive's trailer, in whatever order and whenever its files were written. Whatever changes without meaning is
in the trailer, and in no header before: restic cuts a stream where its content says so, and one changed byte costs the
whole piece around it, a megabyte or more. Times change by themselves: a restore makes every file anew, and an agent
writes again what it had.
"""

import hashlib
import io
import json
import os
import sqlite3
import stat
import sys
import tarfile
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from hermesops.wire import strict_json
from hermesops.wire.errors import NotReadyError, RefusedError
from hermesops.wire.state import contents, databases
from hermesops.wire.state.contents import AGENTS_OWN, DATABASE, Item, Walk
from hermesops.wire.state.digest import DOCUMENT_BYTES, Digest, counting, is_document, is_hashed

BUFFER = 1 << 20

MANIFEST = ".hermes-node/manifest.json"
"""The last member; an archive without it was cut short."""

TIMES = ".hermes-node/times"
"""Nanoseconds since 1970, one signed little-endian number of 8 bytes for each file, in the archive's order."""

GAP = ".hermes-node/gap"
"""Zeros, so many that restic always cuts the stream in them: what follows costs no piece of what came before.

Source: github.com/restic/chunker: a piece has at least 512 KiB, and ends as soon as its last 64 bytes are zeros.
"""

_GAP_BYTES = (512 << 10) + 4096
LARGEST = 1 << 43
"""Bytes of a file: what a file system of ours can hold."""

_VERSION = 2
_MANIFEST_BYTES = 1 << 20
_TIME_BYTES = 8
_LONGEST = (1 << 63) - 1


@dataclass(frozen=True)
class Packed:
    """The result of packing or unpacking.

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

    The archive already has its size, so a file that shrinks meanwhile is filled up with zeros: otherwise there would be
    no copy of an agent that truncates a log at the wrong moment.

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


def pack(home: Path, out: BinaryIO) -> Packed:
    """Write a home's state to a stream while the agent may be running.

    Raises:
        NotReadyError: A database of the agent's stayed locked, or there is no room for its copy.
        OSError: Nobody reads the stream.
    """
    walk, digest, times, files, size = Walk(home), Digest(), Times(), 0, 0
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
        packed = Packed(digest.result(), size, files, walk.left_out)
        write_trailer(archive, packed.state, files, times)
    return packed


class _LeftOutError(Exception):
    """One file cannot be copied; the rest can."""


@contextmanager
def _workplace(home: Path) -> Iterator[Path]:
    folder = home / os.fsdecode(contents.OURS) / "work"
    contents.make_free(folder)  # what a killed run left
    folder.mkdir(mode=0o700, parents=True)
    try:
        yield folder
    finally:
        contents.remove(folder)


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
        with counting(copied) as tables:
            with copied.open("rb") as whole:
                yield whole
            try:
                digest.add(tables())
            except sqlite3.DatabaseError:
                digest.no_database()
        copied.unlink()


def _copied(home: Path, item: Item, target: Path) -> bool:
    target.unlink(missing_ok=True)
    try:
        databases.copy(contents.path_of(home, item.name), target)
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
    """Add a file; return whether it is whole."""
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


class Times:
    """Times of change of files, in the order of the files."""

    def __init__(self) -> None:
        self._held = array("q")

    def add(self, mtime_ns: int) -> None:
        """Add one file's time; a time of another century becomes the nearest that 64 bits hold."""
        self._held.append(max(-_LONGEST, min(mtime_ns, _LONGEST)))

    def to_bytes(self) -> bytes:
        """All times in the archive's format."""
        return _little_endian(self._held).tobytes()


def write_trailer(archive: tarfile.TarFile, state: dict[str, dict[str, Any]], files: int, times: Times) -> None:
    """Write the end of an archive: times, digest and count of files."""
    _add_bytes(archive, GAP, bytes(_GAP_BYTES))
    _add_bytes(archive, TIMES, times.to_bytes())
    manifest = {"version": _VERSION, "state": state, "files": files}
    _add_bytes(archive, MANIFEST, json.dumps(manifest, sort_keys=True).encode())


def refuse_large(size: int) -> None:
    """Refuse a gap or manifest larger than ours, which could be endless."""
    if size > _MANIFEST_BYTES:
        raise RefusedError("the copy ends with more than it may")


def read_times(file: BinaryIO, count: int) -> Iterable[int]:
    """Read the times of change of ``count`` files.

    Raises:
        RefusedError: There are more times, or fewer.
    """
    data = file.read(count * _TIME_BYTES + 1)
    if len(data) != count * _TIME_BYTES:
        raise RefusedError("the copy lacks the times of its files")
    times = array("q")
    times.frombytes(data)
    return _little_endian(times)


def read_manifest(file: BinaryIO) -> dict[str, Any]:
    """The digest and the count of files that an archive claims.

    Raises:
        RefusedError: It is malformed.
        NotReadyError: It is of another version.
    """
    try:
        manifest = strict_json.parse_object(file.read(_MANIFEST_BYTES))
    except strict_json.MalformedJSONError:
        raise RefusedError("the copy has no valid manifest") from None
    if manifest.get("version") != _VERSION:
        # Not the copy's fault: another hermes-node reads it.
        raise NotReadyError(f"the copy is of another version, this hermes-node reads {_VERSION}")
    return manifest


def _add_bytes(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))


def _little_endian(numbers: "array[int]") -> "array[int]":
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers
