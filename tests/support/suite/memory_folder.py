"""A folder in memory, for files that live as long as a test: on a disk, its journal costs more than they do."""

import shutil
import tempfile
from pathlib import Path

_MEMORY = Path("/dev/shm")  # noqa: S108 - folders in it have random names and are their owner's alone
ROOM_BYTES = 4 << 30
"""What has to be free there: a container often has 64 MiB, and a run's files are to leave memory for its machines."""


def memory_folder(memory: Path = _MEMORY) -> Path:
    """The computer's memory as a folder, or that of temporary files where the memory is small or there is none.

    Args:
        memory: A file system in memory. Source: tmpfs(5).
    """
    is_roomy = memory.is_dir() and shutil.disk_usage(memory).free >= ROOM_BYTES
    return memory if is_roomy else Path(tempfile.gettempdir())
