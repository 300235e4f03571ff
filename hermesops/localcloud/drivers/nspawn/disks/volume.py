"""A machine's data volume: a file system of the size that its order names, mounted where its user's data is.

A machine in a container can mount no disk, so this computer does it for it, and without encryption. The file lies on
the machine's own disk, which limits and carries it, beside what the machine itself sees.
"""

from contextlib import suppress
from pathlib import Path

from hermesops.errors import RefusedError
from hermesops.localcloud.drivers.nspawn.computer.command import run
from hermesops.localcloud.drivers.nspawn.disks import guest_files
from hermesops.localcloud.drivers.nspawn.disks.growth import lengthen
from hermesops.localcloud.drivers.nspawn.disks.mounts import is_attached, is_mounted
from hermesops.node.protocol import DATA_PATH, GB, VARIABLES
from hermesops.node.system import data_volume
from hermesops.node.system.data_volume import wanted_gb

_LAZY = ("-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard")
_OPTIONS = "loop,discard,noatime,nosuid,nodev,noinit_itable"  # what was never written reads as zeros already


def data_beside(layer: Path) -> Path:
    """The data volume that was saved with an image's layer; there may be none."""
    return layer.with_name(f"{layer.name}.data")


class Volume:
    """The data volume of one machine.

    Args:
        file: The file it is kept in.
        root: The machine's mounted disk.
    """

    def __init__(self, file: Path, root: Path) -> None:
        self.file = file
        self._root = root
        self._place = root / DATA_PATH.lstrip("/")

    def open(self) -> None:
        """Make it where the order wants one and there is none, grow it, and mount it; no process of the machine runs.

        A machine without one, as those of older worlds, has a plain folder there.

        Raises:
            RefusedError: The way to the data leads through a link.
            UnavailableError: There is no room, or the file system is damaged.
        """
        size = wanted_gb(self._variables()) * GB // data_volume.BLOCK * data_volume.BLOCK
        if is_mounted(self._place) or not (size or self.file.exists()):
            return
        guest_files.ensure_folder(self._root, DATA_PATH)
        if self.file.exists():
            self._grow(size)
        else:
            self._make(size)
        run(["mount", "-t", "ext4", "-o", _OPTIONS, str(self.file), str(self._place)])
        with suppress(OSError):  # of a repair before it grew; absent, or it holds what that has found
            (self._place / "lost+found").rmdir()

    def close(self) -> None:
        """Unmount it; absent is success."""
        while is_mounted(self._place):
            run(["umount", str(self._place)])

    def settle(self) -> None:
        """Bring everything that was written into the file, for whoever copies it; nothing writes meanwhile."""
        if is_mounted(self._place):
            run(["sync", "-f", str(self._place)])

    def _variables(self) -> bytes:
        try:
            return guest_files.read(self._root, VARIABLES)
        except RefusedError:
            return b""

    def _make(self, size: int) -> None:
        """Whole or not at all, with what the image has in that place already."""
        making = self.file.with_suffix(".making")
        with making.open("wb") as file:
            file.truncate(size)
        run([*data_volume.MKFS, *_LAZY, "-d", str(self._place), str(making)])
        run(data_volume.furnish(making, self._place, options=_OPTIONS))
        making.rename(self.file)

    def _grow(self, size: int) -> None:
        """Never smaller; the same again after it was killed. While somebody's copy of the mount lives, it stays."""
        size = max(size, self.file.stat().st_size)
        if data_volume.size_of(self.file) < size and not is_attached(self.file):
            lengthen(self.file, size)


def copy_volume(source: Path, target: Path) -> None:
    """Copy the file of a volume that nobody writes to; absent is success, and then there is none."""
    if source.exists():
        run(["cp", "--sparse=auto", str(source), str(target)])
    else:
        target.unlink(missing_ok=True)
