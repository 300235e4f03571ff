"""What the file system of a data volume is like, whoever makes it: the machine itself, or the local world for it."""

import os
from contextlib import suppress
from pathlib import Path

BLOCK = 4096
"""Bytes of a block; also of a sector of what lies below it."""

MKFS = ("mkfs.ext4", "-q", "-F", "-m", "0", "-b", str(BLOCK), "-J", "size=128")
"""With a journal of 128 MiB: mkfs would take a gigabyte of the user's forty."""

CLEAN_OR_CORRECTED = (0, 1)
"""Exit codes of e2fsck after which a file system may be used."""

_SUPERBLOCK, _BLOCKS_AT = 1024, slice(4, 8)


def size_of(device: Path) -> int:
    """Bytes that the file system goes to. Source: the kernel's Documentation/filesystems/ext4, superblock."""
    with device.open("rb") as file:
        file.seek(_SUPERBLOCK)
        return int.from_bytes(file.read(_BLOCKS_AT.stop)[_BLOCKS_AT], "little") * BLOCK


def move_in(place: Path, before: os.stat_result) -> None:
    """Have a file system that was just mounted look like the folder that it hides.

    Args:
        place: Where it is mounted.
        before: What the folder was like.
    """
    with suppress(OSError):  # absent, or it holds what a repair has found
        (place / "lost+found").rmdir()
    if place.stat().st_uid == 0:
        os.chown(place, before.st_uid, before.st_gid)
        place.chmod(before.st_mode & 0o7777)
