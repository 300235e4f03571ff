"""Secrets as temporary files, for programs that need files: in memory, while this process lives, for this user only.

A killed process leaves its folder; the next one that makes a file deletes it.
"""

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import weakref
from functools import cached_property
from pathlib import Path

from hermesops.base.files.private_file import make_private_folder, replace_secret

_MEMORY = Path("/dev/shm")  # noqa: S108 - a tmpfs; what is ours in it is checked for owner and mode
_LOCK = ".lock"


class TempFiles:
    """Files that are there until this object or its process ends.

    Args:
        within: The folder that the files of all processes of this user are in; by default one in memory.
    """

    def __init__(self, within: Path | None = None) -> None:
        self._within = within

    def lend(self, name: str, text: str) -> Path:
        """Write a secret into a file; the same name again replaces it."""
        file = self._folder / name
        replace_secret(file, text)
        return file

    @cached_property
    def _folder(self) -> Path:
        within = self._within or _ours()
        make_private_folder(within)
        _sweep(within)
        folder = Path(tempfile.mkdtemp(prefix="lent-", dir=within))
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)  # held while this process lives: so others know
        weakref.finalize(self, _end, folder, lock)
        return folder


def _ours() -> Path:
    """A folder that only this user can read, in memory where possible."""
    if _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK):
        folder = _MEMORY / f"hermesops-{os.getuid()}"
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        status = folder.lstat()
        if stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077:
            return folder
    return Path(tempfile.gettempdir()) / f"hermesops-{os.getuid()}-{os.getpid()}"


def _sweep(within: Path) -> None:
    """Delete folders of processes that were killed."""
    for folder in within.glob("lent-*"):
        try:
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue  # just being made, or removed
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            pass  # its process lives
        finally:
            os.close(lock)


def _end(folder: Path, lock: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)
