"""What the file system of a data volume is like, whoever makes it: the machine itself, or the local world for it."""

from pathlib import Path

BLOCK = 4096
"""Bytes of a block; also of a sector of what lies below it."""

MKFS = ("mkfs.ext4", "-q", "-F", "-m", "0", "-b", str(BLOCK), "-J", "size=128")
"""With a journal of 128 MiB: mkfs would take a gigabyte of the user's forty."""

_FURNISH = """
mount -t ext4 -o "$1" "$2" "$3"
rmdir "$3/lost+found"
chown "$4" "$3"
chmod "$5" "$3"
umount "$3"
"""

_SUPERBLOCK, _BLOCKS_AT = 1024, slice(4, 8)


def size_of(device: Path) -> int:
    """Bytes that the file system goes to. Source: the kernel's Documentation/filesystems/ext4, superblock."""
    with device.open("rb") as file:
        file.seek(_SUPERBLOCK)
        return int.from_bytes(file.read(_BLOCKS_AT.stop)[_BLOCKS_AT], "little") * BLOCK


def furnish(device: Path, place: Path, *, options: str = "noatime") -> tuple[str, ...]:
    """The command that makes a new file system look like the folder that it will hide.

    It sees the mount alone, in a namespace that ends with it: killed anywhere, it leaves no mount behind. Done before
    anybody may use the file system, since who finds one mounted does not look at it again.

    Args:
        device: What the file system is on.
        place: The folder; mounted over where nobody else sees it.
        options: Of mount.

    Source: unshare(1) of util-linux: mounts of the new namespace are private.
    """
    folder = place.stat()
    owner, mode = f"{folder.st_uid}:{folder.st_gid}", f"{folder.st_mode & 0o7777:o}"
    return ("unshare", "--mount", "/bin/sh", "-ec", _FURNISH, "sh", options, str(device), str(place), owner, mode)
