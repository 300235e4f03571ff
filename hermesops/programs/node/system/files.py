"""Reading and writing as root, safely: no link is followed, no half-written file is ever seen.

hermes-node is root in a folder that the agent writes. Every step below such a folder starts from an open descriptor
of the folder and names one component; a link in that place is replaced or refused, never followed.
"""

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from hermesops.wire.errors import BadRequestError, NotReadyError

_LOCK_S = 900.0
"""Seconds that the machine's lock is waited for: longer than a change of release holds it."""

_LOCK_EVERY_S = 0.05


@dataclass(frozen=True)
class Access:
    """Mode and owner of a file that we write."""

    mode: int
    uid: int = 0
    gid: int = 0


PRIVATE = Access(0o600)
"""Of files that are root's alone."""


@contextmanager
def opened_folder(path: Path, *, within: int | None = None) -> Iterator[int]:
    """A descriptor of a folder; the last component of its path is not a link.

    A relative path is below the folder of the descriptor ``within``.

    Raises:
        NotReadyError: It does not exist, or is something else.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=within)
    except OSError as error:
        raise NotReadyError(f"{path}: {error.strerror}") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read(path: Path, *, limit: int = 1024 * 1024) -> bytes | None:
    """The content of a file, or ``None`` when there is none.

    Raises:
        NotReadyError: It is a link, no regular file, or larger than ``limit`` bytes.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise NotReadyError(f"{path}: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise NotReadyError(f"{path}: not a regular file")
        data = file.read(limit + 1)
    if len(data) > limit:
        raise NotReadyError(f"{path}: larger than {limit} bytes")
    return data


def take(path: Path, *, limit: int) -> bytes:
    """Read a file that carries secrets; it is always removed.

    Raises:
        BadRequestError: It is a link, not root's, readable by others, too large, or absent. An existing file is
            removed all the same.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        with suppress(OSError):
            path.unlink()
        raise BadRequestError(f"{path}: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise BadRequestError(f"{path}: not a regular file")
            if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
                raise BadRequestError(f"{path}: must be root's and closed to others (mode 0600)")
            data = file.read(limit + 1)
    finally:
        with suppress(FileNotFoundError):
            path.unlink()
    if len(data) > limit:
        raise BadRequestError(f"{path}: larger than {limit} bytes")
    return data


def exists(folder: int, name: str) -> bool:
    """Whether anything of that name is in the open folder, a dangling link included."""
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def link_target(path: Path) -> Path | None:
    """The target of a link; ``None`` if there is no link."""
    try:
        return path.readlink()
    except OSError:
        return None


def is_mounted(place: Path) -> bool:
    """Whether a folder is a mount point, even of the same file system as its parent.

    Source: proc(5), ``mountinfo``: the fifth word of a line is where; blanks and the like in it are octal.
    """
    shown = str(place).replace(" ", "\\040").replace("\t", "\\011")
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    return any(line.split(" ", 5)[4] == shown for line in lines)


def tail(folder: int, name: str, *, limit: int) -> bytes:
    """The end of a file in a folder of an open folder; empty when there is none, or no plain file is in its place.

    No link below the open folder is followed; the name is ``file`` or ``folder/file``.
    """
    with _plain_file(folder, name) as file:
        if file is None:
            return b""
        file.seek(max(0, os.fstat(file.fileno()).st_size - limit))
        return file.read(limit)


@dataclass(frozen=True)
class LogPiece:
    """The lines of a log after the last reading.

    Attributes:
        inode: Which file it is.
        end: Offset of the first byte that was not read.
    """

    inode: int
    end: int
    data: bytes


def read_on(folder: int, name: str, *, inode: int, offset: int, limit: int) -> LogPiece | None:
    """The whole lines of a log from an offset on, the last ``limit`` bytes of them; ``None`` as ``tail``'s nothing.

    Another file than that of the inode, and one that has become shorter, is read from its beginning.
    """
    with _plain_file(folder, name) as file:
        if file is None:
            return None
        status = os.fstat(file.fileno())
        begin = offset if status.st_ino == inode and offset <= status.st_size else 0
        begin = max(begin, status.st_size - limit)
        file.seek(begin)
        data = file.read(limit)
    whole = data.rfind(b"\n") + 1
    if not whole and len(data) == limit:  # a line without an end
        whole = limit
    return LogPiece(status.st_ino, begin + whole, data[:whole])


def size(folder: int, name: str) -> int | None:
    """Bytes of a file; ``None`` as ``tail``'s nothing."""
    between, _, last = name.rpartition("/")
    try:
        with opened_folder(Path(between or "."), within=folder) as inner:
            status = os.stat(last, dir_fd=inner, follow_symlinks=False)
    except (OSError, NotReadyError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


@contextmanager
def _plain_file(folder: int, name: str) -> Iterator[BinaryIO | None]:
    """A file below an open folder; ``None`` when there is none, or no plain file is in its place."""
    between, _, last = name.rpartition("/")
    try:
        with opened_folder(Path(between or "."), within=folder) as inner:
            descriptor = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=inner)
    except (OSError, NotReadyError):
        yield None
        return
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        yield None
        return
    with os.fdopen(descriptor, "rb") as file:
        yield file


def write(folder: int, name: str, data: bytes, access: Access) -> None:
    """Put a file into an open folder in one step that survives a crash; a link of that name is replaced.

    The content is on the disk before the name changes, and the name is on the disk before this returns.
    """
    temporary = f".{name}.{os.urandom(6).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fchown(file.fileno(), access.uid, access.gid)
            os.fchmod(file.fileno(), access.mode)
            os.fsync(file.fileno())
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=folder)
        raise
    os.fsync(folder)


def differs(path: Path, data: bytes, access: Access) -> bool:
    """Whether a file's content differs from ``data``, or its access from ``access``."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return True
    if not stat.S_ISREG(status.st_mode) or status.st_size != len(data):
        return True
    return Access(stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid) != access or read(path) != data


def write_if_changed(path: Path, data: bytes, access: Access) -> bool:
    """Make a file hold ``data`` with ``access``; whether that changed anything."""
    if not differs(path, data, access):
        return False
    with opened_folder(path.parent) as folder:
        write(folder, path.name, data, access)
    return True


def sync(path: Path) -> None:
    """Write a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def point(link: Path, target: str) -> None:
    """Point a link at something in one step that survives a crash."""
    new_link = link.with_name(f".{link.name}.making")
    with suppress(FileNotFoundError):
        new_link.unlink()
    new_link.symlink_to(target)
    new_link.rename(link)
    sync(link.parent)


def remove(folder: int, name: str) -> bool:
    """Remove one name from an open folder; whether it was there."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    return True


@contextmanager
def locked(path: Path, *, limit_s: float = _LOCK_S) -> Iterator[None]:
    """Hold the machine's lock, so that two hermes-nodes do not change it at once; waits for the other.

    Raises:
        NotReadyError: The lock's folder cannot be made, or the other still holds the lock.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise NotReadyError(f"{path}: {error.strerror}") from error
    until = time.monotonic() + limit_s
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    message = f"another hermes-node has been changing this machine for {limit_s:g} s"
                    raise NotReadyError(message) from None
                time.sleep(_LOCK_EVERY_S)
        yield
    finally:
        os.close(descriptor)
