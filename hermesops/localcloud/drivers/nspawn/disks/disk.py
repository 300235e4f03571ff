"""A machine's disk, a sparse ext4 image of a fixed size over the layers below, and the data volume on it.

A machine in a container can mount no disk, so this computer mounts its data volume for it, without encryption. The
volume's file lies on the machine's own disk, which limits and carries it, beside what the machine itself sees.
"""

import fcntl
import os
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from hermesops.errors import RefusedError
from hermesops.localcloud.drivers.nspawn.computer.command import holds_within, run
from hermesops.localcloud.drivers.nspawn.disks import guest_files
from hermesops.localcloud.drivers.nspawn.disks.guest_files import remove_tree
from hermesops.programs.node.system import data_volume
from hermesops.programs.node.system.data_volume import wanted_gb
from hermesops.programs.node.system.files import is_mounted
from hermesops.wire.protocol import DATA_PATH, GB, VARIABLES

_GIB = 1024**3
_DETACH_S = 2.0
_TICK_S = 0.02
_OWN = "disk"
_OPTIONS = "loop,discard,noatime"
_LAZY = ("-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard")
_MKFS = ("mkfs.ext4", "-q", "-F", "-m", "0", *_LAZY)
_VOLUME_OPTIONS = "loop,discard,noatime,nosuid,nodev,noinit_itable"  # what was never written reads as zeros already
_CLEAN_OR_CORRECTED = (0, 1)
"""Exit codes of e2fsck after which a file system may be used."""

_LOOP_STATUS, _LOOP_BYTES = 0x4C05, 232
"""``LOOP_GET_STATUS64`` and the size of its answer, which begins with the file's device and inode: linux/loop.h."""


def data_beside(layer: Path) -> Path:
    """The data volume that was saved with an image's layer; there may be none."""
    return layer.with_name(f"{layer.name}.data")


class Volume:
    """The data volume of one machine, kept in ``file``; ``root`` is the machine's mounted disk."""

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
        run(["mount", "-t", "ext4", "-o", _VOLUME_OPTIONS, str(self.file), str(self._place)])
        with suppress(OSError):  # of a repair before it grew; absent, or it holds what that has found
            (self._place / "lost+found").rmdir()

    def close(self) -> None:
        """Unmount the volume; an absent volume is success."""
        self.settle()  # while a copy of its mount exists, no unmount writes anything
        while is_mounted(self._place):
            run(["umount", str(self._place)])

    def settle(self) -> None:
        """Flush everything that was written into the file, before it is copied; nothing writes meanwhile."""
        if is_mounted(self._place):
            run(["sync", "-f", str(self._place)])

    def _variables(self) -> bytes:
        try:
            return guest_files.read(self._root, VARIABLES)
        except RefusedError:
            return b""

    def _make(self, size: int) -> None:
        """Make the volume, whole or not at all, with the image's content of its folder."""
        making = self.file.with_suffix(".making")
        with making.open("wb") as file:
            file.truncate(size)
        run([*data_volume.MKFS, *_LAZY, "-d", str(self._place), str(making)])
        run(data_volume.furnish(making, self._place, options=_VOLUME_OPTIONS))
        making.rename(self.file)

    def _grow(self, size: int) -> None:
        """Make it larger, never smaller; safe to repeat. While a copy of its mount exists, it keeps its size."""
        size = max(size, self.file.stat().st_size)
        if data_volume.size_of(self.file) < size and not is_attached(self.file):
            lengthen(self.file, size)


def copy_volume(source: Path, target: Path) -> None:
    """Copy the file of a volume that is not written to; without one, the target is removed."""
    if source.exists():
        run(["cp", "--sparse=auto", str(source), str(target)])
    else:
        target.unlink(missing_ok=True)


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
        """Make an empty disk; it takes some megabytes until it is written to."""
        self._make(size_gib * _GIB)

    def _make(self, size_bytes: int) -> None:
        with self._image.open("wb") as image:
            image.truncate(size_bytes)
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
        """Replace an image that is still mounted elsewhere: the next mount would not see its new size.

        A process with a copy of this computer's mounts that gets no unmounts (``unshare --mount``) holds it. The kernel
        then goes on with the size it knows and would write over what was changed in the file.
        """
        self._mount_own()
        try:
            self._replace(self.upper, self.volume.file, size_bytes, lambda _: None)
        finally:
            self.unmount()

    def refill(self, upper: Path, data: Path, finish: Callable[[Path], None]) -> None:
        """Replace the disk's content by a copy of ``upper``, whole or not at all. It must not be mounted.

        Args:
            upper: Folder of the differences from the layers below.
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
            fresh._image.replace(self._image)
        finally:
            fresh.discard()

    def fill(self, upper: Path, data: Path, size_bytes: int) -> None:
        """Make the disk anew and mount it, with a copy of both; after a failure call ``discard``."""
        self._home.mkdir(parents=True)
        self._make(size_bytes)
        self._mount_own()
        run(["cp", "-a", "--sparse=auto", str(upper), str(self.upper)])
        copy_volume(data, self.volume.file)

    def discard(self) -> None:
        """Remove the disk with its content; an absent disk is success."""
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
        """Unmount it; its processes must be gone: busy means that something is alive.

        But for one case: a process with a copy of this computer's mounts (``unshare --mount``) holds the volume, whose
        file is open on the disk then. The disk leaves its place and stays until that process ends.

        The loop device frees itself once no copy of the mount is left. A machine or a build that starts at this
        moment does for an instant; waiting is polite, not necessary, since a second mount takes the same device.
        """
        self.volume.close()
        for folder in (self.root, self._own, self._refill / _OWN):  # the last after a refill that was killed
            while is_mounted(folder):
                held = folder == self._own and is_attached(self.volume.file)
                run(["umount", *(["--lazy"] if held else []), str(folder)])
        holds_within(lambda: not is_attached(self._image), _DETACH_S, every_s=_TICK_S)


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


def is_attached(image: Path) -> bool:
    """Whether a loop device uses a file, be it mounted here or in another mount namespace.

    By the file's inode: the path of a file on a disk that has left its place says nothing any more.
    """
    try:
        file = image.stat()
    except FileNotFoundError:
        return False
    return any(_backing(device) == (file.st_dev, file.st_ino) for device in Path("/dev").glob("loop[0-9]*"))


def _backing(device: Path) -> tuple[int, int] | None:
    """Device and inode of the file behind a loop device; ``None`` where it has none."""
    status = bytearray(_LOOP_BYTES)
    try:
        descriptor = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.ioctl(descriptor, _LOOP_STATUS, status)
    except OSError:
        return None
    finally:
        os.close(descriptor)
    number, inode = struct.unpack_from("QQ", status)
    return number, inode


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
