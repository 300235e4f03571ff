"""A machine's disk: a sparse ext4 image of its own size, holding what differs from the layers below."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from hermesops.localcloud.drivers.nspawn.computer.command import run
from hermesops.localcloud.drivers.nspawn.disks.growth import lengthen
from hermesops.localcloud.drivers.nspawn.disks.guest_files import remove_tree
from hermesops.localcloud.drivers.nspawn.disks.mounts import is_attached, is_mounted
from hermesops.localcloud.drivers.nspawn.disks.volume import Volume, copy_volume
from hermesops.waiting import pause_blocking

_GIB = 1024**3
_DETACH_S = 2.0
_TICK_S = 0.02
_OWN = "disk"
_OPTIONS = "loop,discard,noatime"
_MKFS = ["mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard"]


class Disk:
    """The disk of one machine, in that machine's folder.

    Args:
        home: The machine's folder; mount options are limited to one page, so paths are given relative to the store.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._refill = home / "refill"
        self._image = home / "disk.img"
        self._own = home / _OWN
        self.root = home / "root"
        self.upper = self._own / "up"
        self.volume = Volume(self._own / "data.img", self.root)

    def make(self, size_gib: int) -> None:
        """Make an empty one; it takes some megabytes until it is written to."""
        with self._image.open("wb") as image:
            image.truncate(size_gib * _GIB)
        run([*_MKFS, str(self._image)])

    def grow(self, size_gib: int) -> None:
        """Make it larger, with everything on it; safe to repeat. It must not be mounted.

        Raises:
            UnavailableError: The file system is damaged, or there is no room.
        """
        size = max(self._image.stat().st_size, size_gib * _GIB)
        if is_attached(self._image):
            self._copy_over(size)
            return
        lengthen(self._image, size)

    def _copy_over(self, size_bytes: int) -> None:
        """Take a new image for one that is mounted somewhere still, and that the next mount would find as it was.

        Whoever copied this computer's mounts and hears of no unmounts (``unshare --mount``) holds it. The kernel then
        goes on with the size it knows and would write over what was changed in the file behind its back.
        """
        self._mount_own()
        try:
            self._replace(self.upper, self.volume.file, size_bytes, lambda _: None)
        finally:
            self.unmount()

    def refill(self, upper: Path, data: Path, finish: Callable[[Path], None]) -> None:
        """Replace what is on it by a copy of ``upper``; whole or not at all. It must not be mounted.

        Args:
            upper: Folder of what differs from the layers below.
            data: File of a data volume, or nothing.
            finish: Makes the copy this disk's own, before it takes its place.

        Raises:
            UnavailableError: No room for a copy; the disk is as it was.
        """
        self._replace(upper, data, self._image.stat().st_size, finish)

    def _replace(self, upper: Path, data: Path, size_bytes: int, finish: Callable[[Path], None]) -> None:
        fresh = Disk(self._refill)
        fresh.discard()
        try:
            fresh.fill(upper, data, size_bytes)
            finish(fresh.upper)
            fresh.unmount()
            fresh.hand_over(self._image)
        finally:
            fresh.discard()

    def fill(self, upper: Path, data: Path, size_bytes: int) -> None:
        """Make it new and mounted, holding a copy of both; what a failure leaves is for ``discard``."""
        self._home.mkdir(parents=True)
        with self._image.open("wb") as image:
            image.truncate(size_bytes)
        run([*_MKFS, str(self._image)])
        self._mount_own()
        run(["cp", "-a", "--sparse=auto", str(upper), str(self.upper)])
        copy_volume(data, self.volume.file)

    def hand_over(self, image: Path) -> None:
        """Take the place of another's image in one step."""
        self._image.replace(image)

    def discard(self) -> None:
        """Remove it with everything on it; absent is success."""
        self.unmount()
        remove_tree(self._home)

    def mount(self, layers: Sequence[Path], *, cwd: Path) -> None:
        """Mount it over ``layers``, the lowest first; safe to repeat."""
        self._mount_own()
        self.root.mkdir(exist_ok=True)
        if is_mounted(self.root):
            return
        self.upper.mkdir(exist_ok=True)
        (self._own / "work").mkdir(exist_ok=True)
        self.upper.chmod(0o755)
        lower = ":".join(os.path.relpath(layer, cwd) for layer in reversed(layers))
        own = os.path.relpath(self._own, cwd)
        options = f"lowerdir={lower},upperdir={own}/up,workdir={own}/work"
        run(["mount", "-t", "overlay", "-o", options, "hermesops", str(self.root)], cwd=cwd)

    def _mount_own(self) -> None:
        self._own.mkdir(exist_ok=True)
        if not is_mounted(self._own):
            run(["mount", "-t", "ext4", "-o", _OPTIONS, str(self._image), str(self._own)])

    def unmount(self) -> None:
        """Unmount it; its processes must be gone. Never lazily: busy means that something is alive.

        The loop device frees itself once nobody holds a copy of the mount. A machine or a build that starts at this
        moment does for an instant; waiting is polite, not necessary, since a second mount takes the same device.
        """
        self.volume.close()
        for folder in (self.root, self._own, self._refill / _OWN):  # the last after a refill that was killed
            while is_mounted(folder):
                run(["umount", str(folder)])
        waited = 0.0
        while is_attached(self._image) and waited < _DETACH_S:
            pause_blocking(_TICK_S)
            waited += _TICK_S
