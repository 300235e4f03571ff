"""Unpacks an archive of an agent's state into a folder, and checks that it is complete.

It runs as the agent's own user and reads a pipe. An archive without its last member was cut short, and one whose
content has another digest was changed: neither is put in place. Nothing is unpacked beyond its bounds.

Source: GNU tar manual, "Basic Tar Format"; ``tarfile`` reads a header's continuation, as a long name, into memory.
"""

import errno
import io
import os
import shutil
import tarfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Self, cast

from hermesops.wire.errors import RefusedError
from hermesops.wire.state import contents, tar_stream
from hermesops.wire.state.contents import DATABASE, make_free
from hermesops.wire.state.digest import digest_of, unreadable
from hermesops.wire.state.tar_stream import BUFFER, Packed

_KINDS = frozenset({tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.DIRTYPE, tarfile.GNUTYPE_LONGNAME})
_NAME_KINDS = frozenset({errno.ENAMETOOLONG, errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.EILSEQ, errno.EINVAL})
"""Errors of making a file that are due to its name."""

_PADDING_BYTES = 1 << 20
_ROOM_EVERY = 256


@dataclass(frozen=True)
class Bounds:
    """How much of an archive is unpacked at most.

    Attributes:
        bytes: Of the files' content, holes counted.
        members: Files and folders.
        room: Bytes of the disk that are left to others.
    """

    bytes: int = 1 << 50
    members: int = 1 << 40
    room: int = 0


def unpack(source: BinaryIO, folder: Path) -> Packed:
    """Unpack a stream into a folder, and check it against its digest.

    The folder must not exist; it is removed again when this fails.

    Raises:
        RefusedError: The stream is no state, was cut short, or differs from its digest; or there is no room for it.
    """
    make_free(folder)
    folder.mkdir(mode=0o700, parents=True)
    try:
        packed = read(source, folder, Bounds())
        os.sync()
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            contents.remove(folder)
            raise
        room = os.statvfs(folder)
        contents.remove(folder)
        size, free = (blocks * room.f_frsize / 1e9 for blocks in (room.f_blocks, os.statvfs(folder.parent).f_bavail))
        raise RefusedError(
            f"no room for the copy beside the old state: {free:.1f} GB of {size:.1f} GB are free; nothing was changed"
        ) from error
    except BaseException:
        contents.remove(folder)
        raise
    return packed


def read(source: BinaryIO, folder: Path, bounds: Bounds) -> Packed:
    """Like ``unpack``, but into an existing empty folder; keeps the content after a failure.

    Raises:
        RefusedError: The stream is no state, was cut short, differs from its digest, or goes beyond its bounds.
        OSError: There is no room for it.
    """
    taken = _Taken(folder, bounds)
    try:
        with tarfile.open(
            fileobj=source, mode="r|", encoding="utf-8", errors="surrogateescape", bufsize=BUFFER, tarinfo=_Member
        ) as archive:
            for member in archive:
                taken.take(archive, member)
                archive.members = []  # type: ignore[attr-defined]  # it keeps each, though a stream only goes forward
    except (tarfile.TarError, EOFError, RecursionError) as error:
        raise RefusedError(f"the received copy is malformed or was cut short: {error}") from error
    # Read on, so that the writer can end.
    if all(source.read(BUFFER) for _ in range(_PADDING_BYTES // BUFFER + 1)):
        raise RefusedError("the copy has data after its end")
    if taken.manifest is None:
        raise RefusedError("the received copy was cut short: its end is missing")
    state, _ = digest_of(folder, is_alone=True)
    if state != taken.manifest.get("state") or len(taken.files) != taken.manifest.get("files"):
        problem = unreadable(folder) if (folder / os.fsdecode(DATABASE)).exists() else ""
        raise RefusedError(f"the received copy differs from the original{f': {problem}' if problem else ''}")
    return Packed(state, taken.size, len(taken.files), 0)


class _Member(tarfile.TarInfo):
    """A header that is checked before its content is read."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        member = super().frombuf(buf, encoding, errors)
        if member.type not in _KINDS:
            raise RefusedError("the copy holds something else than files and folders")
        longest = contents.LONGEST_NAME + 1 if member.type == tarfile.GNUTYPE_LONGNAME else tar_stream.LARGEST
        if not 0 <= member.size <= longest:
            raise RefusedError("the copy holds a name or a file beyond all measure")
        return member


class _Taken:
    """The contents unpacked so far.

    Attributes:
        files: Their paths, in their order.
    """

    def __init__(self, folder: Path, bounds: Bounds) -> None:
        self._folder = folder
        self._bounds = bounds
        self._members = 0
        self.files: list[str] = []
        self.size = 0
        self.manifest: dict[str, Any] | None = None

    def take(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        if self.manifest is not None:
            raise RefusedError("the copy has data after its end")
        if member.isdir():
            self._count(0)
            _make_folder(self._folder / _inside(member.name))
        elif member.name == tar_stream.MANIFEST:
            tar_stream.refuse_large(member.size)
            self.manifest = tar_stream.read_manifest(_content(archive, member))
        elif member.name == tar_stream.TIMES:
            times = tar_stream.read_times(_content(archive, member), len(self.files))
            for written, mtime_ns in zip(self.files, times, strict=True):
                os.utime(written, ns=(mtime_ns, mtime_ns), follow_symlinks=False)
        elif member.name == tar_stream.GAP:
            tar_stream.refuse_large(member.size)
        else:
            self._count(member.size)
            path = self._folder / _inside(member.name)
            _write(archive, member, path)
            self.files.append(str(path))

    def _count(self, size: int) -> None:
        self.size += size
        self._members += 1
        if self.size > self._bounds.bytes:
            raise RefusedError(f"the copy holds more than the {self._bounds.bytes} bytes that it may")
        if self._members > self._bounds.members:
            raise RefusedError(f"the copy holds more than {self._bounds.members} files and folders")
        if self._bounds.room and (size > BUFFER or self._members % _ROOM_EVERY == 0):
            room = os.statvfs(self._folder)
            if room.f_bavail * room.f_frsize - size < self._bounds.room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> BinaryIO:
    content = archive.extractfile(member)
    return cast("BinaryIO", content) if content else io.BytesIO()


def _inside(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name:
        raise RefusedError("the copy holds a name that leads out of it")
    if len(os.fsencode(name)) > contents.LONGEST_NAME:
        raise RefusedError("the copy holds a name that is too long")
    return path


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise _named(error) from error


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    _make_folder(path.parent)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        raise _named(error) from error
    with os.fdopen(descriptor, "wb") as file:
        shutil.copyfileobj(_content(archive, member), file, BUFFER)
        os.fchmod(file.fileno(), member.mode & 0o700)


def _named(error: OSError) -> Exception:
    if error.errno in _NAME_KINDS:
        return RefusedError(f"the copy holds a name that no file can have here: {os.strerror(error.errno)}")
    return error
