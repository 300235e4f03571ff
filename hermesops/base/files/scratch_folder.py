"""Temporary folders on disks that outlive processes: the next process removes those of killed ones.

Source: flock(2): a lock ends with the last descriptor of its file, however the process ends.
"""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_JUST_MADE_S = 60.0
"""A younger folder may not be locked yet."""


@contextmanager
def scratch_folder(within: Path, prefix: str) -> Iterator[Path]:
    """Make an empty folder for a while, and remove those of the same prefix whose processes were killed.

    Args:
        within: The folder that it is in; made if it is missing.
        prefix: Beginning of its name, of one purpose alone.
    """
    within.mkdir(parents=True, exist_ok=True)
    _sweep(within, prefix)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=within))
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _sweep(within: Path, prefix: str) -> None:
    for folder in within.glob(f"{prefix}*"):
        with suppress(OSError):  # in use, no folder, or another process removes it
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(lock).st_mtime < time.time() - _JUST_MADE_S:
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
