"""What a whole computer boots from: Debian's kernel, its initramfs, and an ext4 image of the local base.

Nothing is mounted. Each set of packages has a tree and an image of its own in the cache of bases; both appear
whole or not at all.
"""

import fcntl
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from hermesops.base import assets
from hermesops.localcloud.drivers.nspawn.disks.base_image import BaseDefinition, ensure_base, read_definition
from tests.support.suite.kept import cached_bases

_KERNEL = ("linux-image-cloud-amd64", "zstd")  # zstd: an initramfs that is quick to unpack
_AGENT = ("qemu-guest-agent", "udev")
_MASKED = ("ssh.service", "ssh.socket", "logrotate.timer", "systemd-pstore.service")
_ROOM_GIB = 4
_BUILD_S = 600


@dataclass(frozen=True)
class BootFiles:
    """A kernel, its initramfs, and the disk with the root file system; nobody may write to any of them."""

    kernel: Path
    initramfs: Path
    disk: Path


def boot_files(packages: Sequence[str] = ()) -> BootFiles:
    """What a guest with these Debian packages boots from, made first if the cache lacks it (2 min, with the network).

    Raises:
        UnavailableError: mmdebstrap failed, most often for want of a package mirror.
    """
    definition = _definition(packages)
    root = ensure_base(definition, cached_bases(), print)
    return BootFiles(_only(root, "boot/vmlinuz-*"), _only(root, "boot/initrd.img-*"), _disk_of(root))


def _definition(packages: Sequence[str]) -> BaseDefinition:
    base = read_definition(assets.folder("images") / "base-debian12")
    return replace(
        base,
        name="qemu-debian12",
        packages=tuple(sorted({*base.packages, *_KERNEL, *_AGENT, *packages})),
        masked=(*base.masked, *_MASKED),
    )


def _only(root: Path, pattern: str) -> Path:
    (path,) = root.glob(pattern)
    return path


def _disk_of(root: Path) -> Path:
    disk = root.parent / "disk.img"
    with _locked(root.parent / ".disk.lock"):
        if not disk.exists():
            making = disk.with_suffix(".making")
            making.unlink(missing_ok=True)  # left by a run that was killed
            command = ["mkfs.ext4", "-q", "-F", "-m", "0", "-L", "root", "-d", str(root), str(making), f"{_ROOM_GIB}G"]
            # Sparse: it takes what the files take.
            path = f"{os.environ['PATH']}:/usr/sbin:/sbin"  # noqa: TID251 - mkfs is root's
            subprocess.run(command, check=True, timeout=_BUILD_S, env={"PATH": path})
            making.rename(disk)
    return disk


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
