"""Growing a file system in a file, while it is mounted nowhere.

Where it is mounted its journal would keep it whole through a kill, but that takes ``CAP_SYS_RESOURCE``, which root does
not have everywhere that a local world runs.
"""

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
