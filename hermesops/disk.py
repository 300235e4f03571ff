"""Brings files and names to the disk, so that a power cut takes neither back."""

import os
from pathlib import Path


def sync_file(file: Path) -> None:
    """Bring a file's content to the disk."""
    _sync(file, os.O_RDONLY)


def sync_folder(folder: Path) -> None:
    """Bring names made and changed in a folder to the disk."""
    _sync(folder, os.O_RDONLY | os.O_DIRECTORY)


def _sync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
