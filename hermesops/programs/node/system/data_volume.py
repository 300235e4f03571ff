"""The data volume of a real machine: a LUKS file, its mapping, its ext4 file system, its size, where it is mounted.

The key comes in through standard input and is written nowhere. It is random, so stretching it, which LUKS does for
passphrases, would only cost seconds and a gigabyte of memory at each boot.

Source: cryptsetup 2.6 (Debian 12), 2.7 (Ubuntu 24.04): cryptsetup-luksFormat(8), cryptsetup-open(8).
"""

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hermesops.programs.node.system import files
from hermesops.wire import processes
from hermesops.wire.errors import NotReadyError, RefusedError
from hermesops.wire.layout import TRIAL_STATE
from hermesops.wire.protocol import DATA_VARIABLE

BLOCK = 4096
"""Bytes of an ext4 block, and of a sector below it."""

MKFS = ("mkfs.ext4", "-q", "-F", "-m", "0", "-b", str(BLOCK), "-J", "size=128")
"""With a journal of 128 MiB: mkfs would take a gigabyte of the user's forty."""

MAPPING = "hermes-data"
_MAPPER = Path("/dev/mapper")
_RANDOM_ID = Path("/proc/sys/kernel/random/uuid")
_ROOM_LEFT = 4 << 30
"""Bytes that a volume leaves to the rest of the machine."""

_FORMAT = (
    *("--type", "luks2", "--cipher", "aes-xts-plain64", "--key-size", "512", "--sector-size", str(BLOCK)),
    *("--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000", "--batch-mode"),
)
_MOUNT = ("mount", "-t", "ext4", "-o", "noatime,nosuid,nodev")
_WRONG_KEY = 2
_STEP_S = 600.0

_FURNISH = """
mount -t ext4 -o "$1" "$2" "$3"
rmdir "$3/lost+found"
chown "$4" "$3"
chmod "$5" "$3"
umount "$3"
"""

_SUPERBLOCK, _BLOCKS_AT = 1024, slice(4, 8)

_LINE = re.compile(rf"^{DATA_VARIABLE}='?([0-9]{{1,6}})'?$", re.MULTILINE)


@dataclass(frozen=True)
class VolumeState:
    """The file system that a folder is on.

    Attributes:
        is_mounted: Whether it is mounted there, so is not the machine's own.
        is_encrypted: Whether it is on an encrypted device.
        size: Bytes.
        used: Bytes.
    """

    is_mounted: bool
    is_encrypted: bool
    size: int
    used: int


def observe(place: Path, /) -> VolumeState:
    """The mount at a folder, which the agent may be writing to.

    Raises:
        NotReadyError: There is no such folder.
    """
    with files.opened_folder(place) as folder:
        here, above, room = os.fstat(folder).st_dev, os.stat("..", dir_fd=folder).st_dev, os.fstatvfs(folder)
    device = Path(f"/sys/dev/block/{os.major(here)}:{os.minor(here)}/dm/uuid")
    encrypted = device.exists() and device.read_text(encoding="ascii").startswith("CRYPT-")
    size, free = room.f_blocks * room.f_frsize, room.f_bfree * room.f_frsize
    return VolumeState(here != above, encrypted, size, size - free)


def exists(file: Path, /) -> bool:
    """Whether there is a volume, open or not."""
    return file.exists()


def identify(file: Path, /) -> str:
    """A volume's id: of its header, or else one that is made here and kept for the volume still to be made.

    Raises:
        NotReadyError: It cannot be read.
    """
    if file.exists():
        return _run("cryptsetup", "luksUUID", str(file)).strip()
    id_file = file.with_suffix(".id")
    with suppress(FileNotFoundError):
        return id_file.read_text(encoding="ascii").strip()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    new_file = file.with_suffix(".id.new")
    new_file.write_text(_RANDOM_ID.read_text(encoding="ascii"), encoding="ascii")
    files.sync(new_file)
    new_file.rename(id_file)
    files.sync(file.parent)
    return id_file.read_text(encoding="ascii").strip()


def open_volume(file: Path, place: Path, key: bytes, size: int, /) -> None:
    """Mount a volume; create a missing one, extend the file of one that is to grow. May be killed anywhere.

    A new one begins with what is in ``place`` already, and has at least ``size`` bytes.

    Raises:
        RefusedError: The key is another volume's.
        NotReadyError: There is no room, or the volume is damaged.
    """
    size -= size % BLOCK
    if not file.exists():
        _make(file, place, key, size)
    elif not (_MAPPER / MAPPING).exists() and file.stat().st_size < size:
        with file.open("r+b") as volume:
            _reserve(volume.fileno(), file.parent, size)
    _run(*_MOUNT, str(_unlock(file, key, MAPPING)), str(place))


def fill_volume() -> None:
    """Grow the file system of an open volume to all of it; nothing to do, or no volume of ours, is success.

    While it is mounted: its journal then keeps it consistent wherever this is killed, which off-line growing does not.

    Raises:
        NotReadyError: It is damaged.
    """
    device = _MAPPER / MAPPING
    if not device.exists():
        return
    with device.open("rb") as file:
        size = file.seek(0, os.SEEK_END) // BLOCK * BLOCK
    if size_of(device) < size:
        _run("resize2fs", str(device))


def close_volume(place: Path, /) -> None:
    """Unmount a volume and forget its key; absent is success.

    Raises:
        NotReadyError: Something on the machine has files of it open.
    """
    if files.is_mounted(TRIAL_STATE):  # left by a trial that was killed, and of the same file system
        _run("umount", str(TRIAL_STATE))
    if observe(place).is_mounted:
        _run("umount", str(place))
    if (_MAPPER / MAPPING).exists():
        _run("cryptsetup", "close", MAPPING)


def _make(file: Path, place: Path, key: bytes, size: int) -> None:
    """Make a volume completely, or not at all."""
    making, mapping = file.with_suffix(".making"), f"{MAPPING}-making"
    if (_MAPPER / mapping).exists():  # of a run that was killed
        _run("cryptsetup", "close", mapping)
    making.unlink(missing_ok=True)
    descriptor = os.open(making, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        _reserve(descriptor, file.parent, size)
        _run("cryptsetup", "luksFormat", *_FORMAT, "--uuid", identify(file), "--key-file=-", str(making), stdin=key)
        device = _unlock(making, key, mapping)
        _run(*MKFS, "-d", str(place), str(device))
        _run(*furnish(device, place))
        _run("cryptsetup", "close", mapping)
        os.fsync(descriptor)
        making.rename(file)
        files.sync(file.parent)
    except BaseException:
        making.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def _reserve(descriptor: int, folder: Path, size: int) -> None:
    """Allocate all of it at once: a volume must never find that the disk below it is full."""
    disk = os.statvfs(folder)
    free, allocated = disk.f_bavail * disk.f_frsize, os.fstat(descriptor).st_blocks * 512
    if size - allocated > free - _ROOM_LEFT:
        raise NotReadyError(
            f"no room for a data volume of {size / 1e9:.0f} GB: the disk has {free / 1e9:.1f} GB free,"
            f" of which {_ROOM_LEFT / 1e9:.0f} GB are the machine's own"
        )
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        raise NotReadyError(f"no room for a data volume of {size / 1e9:.0f} GB: {error.strerror}") from error


def _unlock(file: Path, key: bytes, mapping: str) -> Path:
    if not (_MAPPER / mapping).exists():
        _run("cryptsetup", "open", "--type", "luks2", "--key-file=-", str(file), mapping, stdin=key)
    return _MAPPER / mapping


def _run(*words: str, stdin: bytes = b"") -> str:
    if words[:2] != ("cryptsetup", "open"):
        return processes.output(words, timeout_s=_STEP_S, stdin=stdin)
    done = processes.run(words, timeout_s=_STEP_S, stdin=stdin)
    if done.returncode == _WRONG_KEY:
        raise RefusedError("the platform's key does not open the data volume")
    if done.returncode:
        raise NotReadyError(f"cryptsetup open: {processes.last_line(done)}")
    return ""


def size_of(device: Path) -> int:
    """Bytes of a file system. Source: the kernel's Documentation/filesystems/ext4, superblock."""
    with device.open("rb") as file:
        file.seek(_SUPERBLOCK)
        return int.from_bytes(file.read(_BLOCKS_AT.stop)[_BLOCKS_AT], "little") * BLOCK


def furnish(device: Path, place: Path, *, options: str = "noatime") -> tuple[str, ...]:
    """The command that gives a new file system the owner and mode of the folder that it will be mounted over.

    It mounts it in a namespace of its own: killed anywhere, it leaves no mount behind. To be run before anybody may use
    the file system, since one that is mounted is not checked again.

    Source: unshare(1) of util-linux: mounts of the new namespace are private.
    """
    folder = place.stat()
    owner, mode = f"{folder.st_uid}:{folder.st_gid}", f"{folder.st_mode & 0o7777:o}"
    return ("unshare", "--mount", "/bin/sh", "-ec", _FURNISH, "sh", options, str(device), str(place), owner, mode)


def wanted_gb(environment: bytes) -> int:
    """Gigabytes of data volume in the variables of a machine's order, a file that a shell reads; 0 for no volume."""
    sizes = _LINE.findall(environment.decode(errors="replace"))
    return int(sizes[-1]) if sizes else 0


def with_gb(environment: bytes, gigabytes: int) -> bytes:
    """The variables with another volume size."""
    line = f"{DATA_VARIABLE}='{gigabytes}'"
    text = environment.decode(errors="surrogateescape")
    if _LINE.search(text):
        return _LINE.sub(line, text).encode(errors="surrogateescape")
    ended = text if not text or text.endswith("\n") else f"{text}\n"
    return f"{ended}{line}\n".encode(errors="surrogateescape")
