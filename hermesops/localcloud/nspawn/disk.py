"""A machine's disk: a sparse ext4 image of its own size, holding what differs from the layers below."""

import os
from collections.abc import Sequence
from pathlib import Path

from hermesops.localcloud.nspawn.command import run

_GIB = 1024**3
_MKFS = ["mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard"]


class Disk:
    """The disk of one machine, in that machine's folder.

    Args:
        home: The machine's folder; mount options are limited to one page, so paths are given relative to the store.
    """

    def __init__(self, home: Path) -> None:
        self._image = home / "disk.img"
        self._own = home / "disk"
        self.root = home / "root"
        self.upper = self._own / "up"

    def make(self, size_gib: int) -> None:
        """Make an empty one; it takes some megabytes until it is written to."""
        with self._image.open("wb") as image:
            image.truncate(size_gib * _GIB)
        run([*_MKFS, str(self._image)])

    def mount(self, layers: Sequence[Path], *, cwd: Path) -> None:
        """Mount it over ``layers``, the lowest first; safe to repeat."""
        self._own.mkdir(exist_ok=True)
        self.root.mkdir(exist_ok=True)
        if not self._own.is_mount():
            run(["mount", "-t", "ext4", "-o", "loop,discard,noatime", str(self._image), str(self._own)])
        if self.root.is_mount():
            return
        self.upper.mkdir(exist_ok=True)
        (self._own / "work").mkdir(exist_ok=True)
        self.upper.chmod(0o755)
        lower = ":".join(os.path.relpath(layer, cwd) for layer in reversed(layers))
        own = os.path.relpath(self._own, cwd)
        options = f"lowerdir={lower},upperdir={own}/up,workdir={own}/work"
        run(["mount", "-t", "overlay", "-o", options, "hermesops", str(self.root)], cwd=cwd)

    def unmount(self) -> None:
        """Unmount it; its processes must be gone. Never lazily: busy means that something is alive."""
        for folder in (self.root, self._own):
            while folder.is_mount():
                run(["umount", str(folder)])
