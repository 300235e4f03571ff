"""The ways to a data volume on a real machine: a LUKS file, its mapping, its file system, where it is mounted.

The key comes in through standard input and is written nowhere: it is a random one, so that stretching it, which LUKS
does for what people remember, would only cost seconds and a gigabyte of memory at each boot.

Source: cryptsetup 2.6 (Debian 12), 2.7 (Ubuntu 24.04): cryptsetup-luksFormat(8), cryptsetup-open(8).
"""

import errno
import os
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hermesops.node.errors import NotReadyError, RefusedError
from hermesops.node.release.trial.plan import COPY
from hermesops.node.system import child_environment
from hermesops.node.system.data_volume import ext4
from hermesops.node.system.files import is_mounted

MAPPING = "hermes-data"
_MAPPER = Path("/dev/mapper")
_RANDOM_ID = Path("/proc/sys/kernel/random/uuid")
_ROOM_LEFT = 4 << 30
"""Bytes that a volume leaves to the rest of the machine."""

_FORMAT = (
    *("--type", "luks2", "--cipher", "aes-xts-plain64", "--key-size", "512", "--sector-size", str(ext4.BLOCK)),
    *("--pbkdf", "pbkdf2", "--pbkdf-force-iterations", "1000", "--batch-mode"),
)
_MOUNT = ("mount", "-t", "ext4", "-o", "noatime,nosuid,nodev")
_WRONG_KEY = 2
_STEP_S = 600.0


@dataclass(frozen=True)
class Room:
    """What the file system is like that a folder is on.

    Attributes:
        is_mounted: Whether it begins there, and is not the machine's own.
        is_encrypted: Whether it lies on an encrypted device.
        size: Bytes of it.
        used: Bytes that are taken.
    """

    is_mounted: bool
    is_encrypted: bool
    size: int
    used: int


def look(place: Path, /) -> Room:
    """What is mounted at a folder, which the agent may be writing in.

    Raises:
        NotReadyError: There is no such folder.
    """
    try:
        folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise NotReadyError(f"{place}: {error.strerror}") from error
    try:
        here, above, room = os.fstat(folder).st_dev, os.stat("..", dir_fd=folder).st_dev, os.fstatvfs(folder)
    finally:
        os.close(folder)
    device = Path(f"/sys/dev/block/{os.major(here)}:{os.minor(here)}/dm/uuid")
    encrypted = device.exists() and device.read_text(encoding="ascii").startswith("CRYPT-")
    size, free = room.f_blocks * room.f_frsize, room.f_bfree * room.f_frsize
    return Room(here != above, encrypted, size, size - free)


def exists(file: Path, /) -> bool:
    """Whether there is a volume, open or not."""
    return file.exists()


def identify(file: Path, /) -> str:
    """A volume's id: what its header says, or else one that is made here and kept for the volume to come.

    Raises:
        NotReadyError: It cannot be read.
    """
    if file.exists():
        return _run("cryptsetup", "luksUUID", str(file)).strip()
    kept = file.with_suffix(".id")
    with suppress(FileNotFoundError):
        return kept.read_text(encoding="ascii").strip()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    made = file.with_suffix(".id.new")
    made.write_text(_RANDOM_ID.read_text(encoding="ascii"), encoding="ascii")
    _settle(made)
    made.rename(kept)
    _settle(file.parent)
    return kept.read_text(encoding="ascii").strip()


def open_volume(file: Path, place: Path, key: bytes, size: int, /) -> None:
    """Mount a volume, made first where there is none, longer where it shall be larger; may be killed anywhere.

    Args:
        file: What it is kept in.
        place: Where it is mounted; a new one begins with what is there already.
        key: Opens it.
        size: Bytes that it shall have at least.

    Raises:
        RefusedError: The key is another volume's.
        NotReadyError: There is no room, or the volume is damaged.
    """
    size -= size % ext4.BLOCK
    if not file.exists():
        _make(file, place, key, size)
    elif not (_MAPPER / MAPPING).exists():
        _extend(file, size)
    _run(*_MOUNT, str(_unlock(file, key, MAPPING)), str(place))


def fill_volume() -> None:
    """Let the file system of an open volume take all of it; nothing to do, or no volume of ours, is success.

    While it is mounted: its journal then keeps it whole wherever this is killed, which off-line growing does not.

    Raises:
        NotReadyError: It is damaged.
    """
    device = _MAPPER / MAPPING
    if device.exists() and ext4.size_of(device) < _device_bytes(device):
        _run("resize2fs", str(device))


def close_volume(place: Path, /) -> None:
    """Unmount a volume and forget its key; absent is success.

    Raises:
        NotReadyError: Something on the machine has files of it open.
    """
    if is_mounted(COPY):  # left by a trial that was killed, and of the same file system
        _run("umount", str(COPY))
    if look(place).is_mounted:
        _run("umount", str(place))
    if (_MAPPER / MAPPING).exists():
        _run("cryptsetup", "close", MAPPING)


def _make(file: Path, place: Path, key: bytes, size: int) -> None:
    """Whole or not at all."""
    making, mapping = file.with_suffix(".making"), f"{MAPPING}-making"
    if (_MAPPER / mapping).exists():  # of a run that was killed
        _run("cryptsetup", "close", mapping)
    making.unlink(missing_ok=True)
    descriptor = os.open(making, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        _reserve(descriptor, file.parent, size)
        _run("cryptsetup", "luksFormat", *_FORMAT, "--uuid", identify(file), "--key-file=-", str(making), given=key)
        device = _unlock(making, key, mapping)
        _run(*ext4.MKFS, "-d", str(place), str(device))
        _run(*ext4.furnish(device, place))
        _run("cryptsetup", "close", mapping)
        os.fsync(descriptor)
        making.rename(file)
        _settle(file.parent)
    except BaseException:
        making.unlink(missing_ok=True)
        raise
    finally:
        os.close(descriptor)


def _extend(file: Path, size: int) -> None:
    if file.stat().st_size < size:
        with file.open("r+b") as volume:
            _reserve(volume.fileno(), file.parent, size)


def _reserve(descriptor: int, folder: Path, size: int) -> None:
    """Take the whole room at once: a volume must never find that the disk below it is full."""
    disk = os.statvfs(folder)
    free, held = disk.f_bavail * disk.f_frsize, os.fstat(descriptor).st_blocks * 512
    if size - held > free - _ROOM_LEFT:
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
        _run("cryptsetup", "open", "--type", "luks2", "--key-file=-", str(file), mapping, given=key)
    return _MAPPER / mapping


def _run(*words: str, given: bytes = b"") -> str:
    try:
        done = subprocess.run(
            words,
            input=given,
            capture_output=True,
            check=False,
            timeout=_STEP_S,
            cwd="/",
            env=child_environment.ENVIRONMENT,
        )
    except FileNotFoundError as error:
        raise NotReadyError(f"{words[0]} is not installed: role hermes_data has not been applied") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotReadyError(f"{words[0]}: {error}") from error
    if done.returncode == 0:
        return done.stdout.decode(errors="replace")
    if words[:2] == ("cryptsetup", "open") and done.returncode == _WRONG_KEY:
        raise RefusedError("the data volume is not opened by the key that the platform keeps for it")
    said = done.stderr.decode(errors="replace").strip().splitlines() or [str(done.returncode)]
    raise NotReadyError(f"{' '.join(words[:2])}: {said[-1][:300]}")


def _device_bytes(device: Path) -> int:
    with device.open("rb") as file:
        return file.seek(0, os.SEEK_END) // ext4.BLOCK * ext4.BLOCK


def _settle(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)
