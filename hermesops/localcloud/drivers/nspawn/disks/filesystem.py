"""Mounts and loop devices of this computer, and the growth of a file system in a file."""

import contextlib
from pathlib import Path

from hermesops.localcloud.drivers.nspawn.computer.command import run

_CLEAN_OR_CORRECTED = (0, 1)
"""Exit codes of e2fsck after which a file system may be used."""


def lengthen(image: Path, size: int) -> None:
    """Make an image at least so many bytes long and let its file system take all of it; safe to repeat.

    Raises:
        UnavailableError: The file system is damaged, or there is no room.
    """
    if image.stat().st_size < size:
        with image.open("r+b") as file:
            file.truncate(size)
    # Also when the file has the size already: a killed call may have come no further.
    run(["e2fsck", "-fp", str(image)], accept=_CLEAN_OR_CORRECTED)
    run(["resize2fs", str(image)])


def is_mounted(folder: Path) -> bool:
    """Whether something is mounted on ``folder``; the usual comparison of devices does not see a bind mount."""
    shown = str(folder).replace(" ", "\\040").replace("\t", "\\011")
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    return any(line.split(" ", 5)[4] == shown for line in lines)


def is_attached(image: Path) -> bool:
    """Whether a loop device uses a file, be it mounted here or in another mount namespace."""
    for path in Path("/sys/block").glob("loop*/loop/backing_file"):
        with contextlib.suppress(OSError):
            if path.read_text().removesuffix("\n") == str(image):
                return True
    return False


def share(folder: Path) -> None:
    """Let unmounts below ``folder`` reach every copy of them; safe to repeat.

    A machine's namespace begins as a copy of this computer's, other machines' disks included, and keeps it out of
    sight. Where the root is mounted private, a deleted machine's loop device and space then stay until the last
    machine that started after it ends (measured; systemd-nspawn 252 makes its copy a slave, which hears of unmounts).
    """
    if not is_mounted(folder):
        run(["mount", "--bind", str(folder), str(folder)])
        run(["mount", "--make-private", str(folder)])  # of no group that it was born into
    run(["mount", "--make-shared", str(folder)])


def unshare(folder: Path) -> None:
    """Take ``share`` back; absent is success."""
    while is_mounted(folder):
        run(["umount", str(folder)])
