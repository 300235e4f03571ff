"""Private folders for runs: gone when the run ends, and, after a ``kill -9``, when the next one begins."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFIX = "hermesops-converge-"


@contextmanager
def private_folder() -> Iterator[Path]:
    """A folder of mode 0700, named after this process, that is removed at the end with all that is in it."""
    _sweep(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(temporary: Path) -> None:
    """Remove what processes of this user's left that are no more: it may hold secrets."""
    for folder in temporary.glob(f"{_PREFIX}*-*"):
        pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
        # Not exists() alone: a folder of a foreign name or user stays.
        if pid.isdigit() and not Path(f"/proc/{pid}").exists() and folder.lstat().st_uid == os.getuid():
            shutil.rmtree(folder, ignore_errors=True)
