"""Makes a folder of an archive of an agent's state, and proves that it is the whole of it.

It runs as the agent's own user and reads a pipe. An archive without its last member was cut short, and one whose
content amounts to something else was changed: neither is put in place.
"""

import errno
import io
import os
import shutil
import tarfile
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

from hermesops.node import contents, ending
from hermesops.node.archive import BUFFER, Packed, empty, look
from hermesops.node.errors import RefusedError


def unpack(source: BinaryIO, folder: Path) -> Packed:
    """Make a folder of a stream, and prove that it amounts to what was packed.

    Args:
        source: The stream.
        folder: Absent; what was begun is removed when this fails.

    Raises:
        RefusedError: The stream is no state, was cut short, or is not what was packed; or there is no room for it.
    """
    empty(folder)
    folder.mkdir(mode=0o700, parents=True)
    try:
        return _unpacked(source, folder)
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
        room = os.statvfs(folder)
        contents.remove(folder)
        size, free = (blocks * room.f_frsize / 1e9 for blocks in (room.f_blocks, os.statvfs(folder.parent).f_bavail))
        raise RefusedError(
            f"no room for what came beside what is there: {free:.1f} GB of {size:.1f} GB are free; nothing was changed"
        ) from error
    except BaseException:
        contents.remove(folder)
        raise


def _unpacked(source: BinaryIO, folder: Path) -> Packed:
    taken = _Taken(folder)
    try:
        with tarfile.open(
            fileobj=source, mode="r|", encoding="utf-8", errors="surrogateescape", bufsize=BUFFER
        ) as archive:
            for member in archive:
                taken.take(archive, member)
    except (tarfile.TarError, EOFError) as error:
        raise RefusedError(f"what came is no copy of a state, or was cut short: {error}") from error
    while source.read(BUFFER):
        pass  # padding: whoever writes it shall be able to end
    if taken.manifest is None:
        raise RefusedError("what came was cut short: its end is missing")
    state, _ = look(folder, is_alone=True)
    if state != taken.manifest["state"] or len(taken.files) != taken.manifest["files"]:
        raise RefusedError("what came is not what was copied")
    os.sync()
    return Packed(state, taken.size, len(taken.files), 0)


class _Taken:
    """What came out of an archive so far.

    Attributes:
        files: In their order.
        size: Bytes of their content.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.files: list[Path] = []
        self.size = 0
        self.manifest: dict[str, Any] | None = None

    def take(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        if self.manifest is not None:
            raise RefusedError("the copy goes on after its end")
        if member.isdir():
            (self._folder / _inside(member.name)).mkdir(mode=0o700, parents=True, exist_ok=True)
        elif not member.isreg():
            raise RefusedError("the copy holds something else than files and folders")
        elif member.name == ending.MANIFEST:
            self.manifest = ending.read_manifest(_content(archive, member))
        elif member.name == ending.TIMES:
            _set_times(self.files, _content(archive, member))
        elif member.name != ending.GAP:
            path = self._folder / _inside(member.name)
            _write(archive, member, path)
            self.files.append(path)
            self.size += member.size


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> BinaryIO:
    content = archive.extractfile(member)
    return cast("BinaryIO", content) if content else io.BytesIO()


def _set_times(written: list[Path], file: BinaryIO) -> None:
    for path, mtime_ns in zip(written, ending.read_times(file, len(written)), strict=True):
        os.utime(path, ns=(mtime_ns, mtime_ns), follow_symlinks=False)


def _inside(name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts or "\0" in name:
        raise RefusedError("the copy holds a name that leads out of it")
    return path


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        shutil.copyfileobj(_content(archive, member), file, BUFFER)
        os.fchmod(file.fileno(), member.mode & 0o700)
