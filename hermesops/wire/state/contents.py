"""The contents of an agent's home that belong to the user's state, found without following a link.

It runs as the agent's own user. The folder is the agent's, so anything may be in it: links, pipes, devices, names that
are no text, files without an end.
"""

import errno
import os
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hermesops.wire.processes import ENVIRONMENT
from hermesops.wire.state.agent_files import DATABASES, LOCK_ENDINGS, is_copied

OURS = b".hermes-node"
"""Our own folder in the agent's home: copies of databases in the making, an incoming state, and the former one."""

FOUND = b"lost+found"
"""What a repair of the file system has found; root's, where a home is the root of one."""

DATABASE = b"state.db"
"""The agent's sessions and messages, below its home."""

CONFIG = b"config.yaml"
"""The user's configuration, below the agent's home."""

AGENTS_OWN = DATABASES
"""Databases that a copy must have. Another one that stays locked is left out, and counted."""

_NOT_THE_AGENTS = frozenset({OURS, FOUND})

LONGEST_NAME = 3800
"""Bytes of a name below a home: with the folders in which we lay a state beside it, what a path may have.

Source: PATH_MAX in linux/limits.h.
"""

_MAGIC = b"SQLite format 3\0"
_SPARSE_FACTOR = 8
_SPARSE_BYTES = 64 << 20


@dataclass(frozen=True)
class Item:
    """A folder or a plain file.

    Attributes:
        name: Below the home, as the file system has it.
        size: Bytes; 0 of a folder.
        mtime_ns: Time of the last change, in nanoseconds since 1970.
    """

    name: bytes
    mode: int
    size: int
    mtime_ns: int

    @property
    def is_folder(self) -> bool:
        """Whether the item is a folder, not a file."""
        return stat.S_ISDIR(self.mode)


@dataclass
class Walk:
    """Walks through a home once.

    Attributes:
        used: Bytes of the disk taken by everything seen so far, whether it belongs to the state or not.
        left_out: Files that could not be copied: unreadable, nearly all hole, or with a name that is too long.
    """

    home: Path
    used: int = 0
    left_out: int = 0

    def items(self) -> Iterator[Item]:
        """The contents of the state, in a fixed order; each folder before its contents."""
        folders = [b""]
        while folders:
            folder = folders.pop()
            below = []
            for item in self._in(folder):
                yield item
                if item.is_folder:
                    below.append(item.name)
            folders += reversed(below)

    def _in(self, folder: bytes) -> Iterator[Item]:
        try:
            names = sorted(os.listdir(path_of(self.home, folder)))  # noqa: PTH208 - bytes, which pathlib does not know
        except OSError as error:
            if error.errno != errno.ENOENT:
                self.left_out += 1
            return
        for last in names:
            name = folder + b"/" + last if folder else last
            if len(name) > LONGEST_NAME:
                self.left_out += 1
                continue
            try:
                status = os.lstat(path_of(self.home, name))
            except OSError as error:
                self.left_out += error.errno != errno.ENOENT
                continue
            self.used += status.st_blocks * 512
            if self._belongs(name, status):
                yield Item(name, status.st_mode, status.st_size * stat.S_ISREG(status.st_mode), status.st_mtime_ns)
            elif stat.S_ISDIR(status.st_mode):
                self.used += _bytes_below(path_of(self.home, name))

    def _belongs(self, name: bytes, status: os.stat_result) -> bool:
        if name in _NOT_THE_AGENTS or name.rpartition(b"/")[2] == b"__pycache__":
            return False
        if stat.S_ISDIR(status.st_mode):
            return is_copied(name) or name.endswith(LOCK_ENDINGS)
        if not stat.S_ISREG(status.st_mode) or not is_copied(name):
            return False
        if status.st_size > _SPARSE_FACTOR * 512 * status.st_blocks + _SPARSE_BYTES:
            self.left_out += 1
            return False
        return True


def ours(home: Path) -> Path:
    """Our own folder in a home; see ``OURS``."""
    return home / os.fsdecode(OURS)


def path_of(home: Path, name: bytes) -> bytes:
    """The path of a file in a home."""
    return os.path.join(os.fsencode(home), name)  # noqa: PTH118 - bytes


def opened(home: Path, name: bytes) -> int:
    """A descriptor of a plain file of a home.

    Raises:
        OSError: It is no plain file, or not readable.
    """
    descriptor = os.open(path_of(home, name), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a plain file")
    return descriptor


def is_database(descriptor: int) -> bool:
    """Whether an open file begins as SQLite's do."""
    return os.pread(descriptor, len(_MAGIC), 0) == _MAGIC


def _bytes_below(path: bytes) -> int:
    total, folders = 0, [path]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
        except OSError:
            continue  # too deep, or unreadable: not counted
    return total


def remove(path: Path) -> None:
    """Remove a file or folder with everything below it; links are removed, not followed.

    By ``rm``: Python's own ways fail in folders nested too deep.

    Raises:
        OSError: Something is left.
    """
    subprocess.run(
        ["/bin/rm", "-rf", "--", path],
        check=False,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env=ENVIRONMENT,
    )
    if path.is_symlink() or path.exists():
        raise OSError(errno.ENOTEMPTY, f"{path.name} cannot be removed")


def make_free(folder: Path) -> None:
    """Free a name in our own folder by removing any content; links are removed, not followed."""
    for path in (folder.parent, folder):
        if path.is_symlink() or (path.exists() and (path == folder or not path.is_dir())):
            remove(path)
