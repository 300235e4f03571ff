"""The ``Files`` of hermes-node on a simulated machine: the same promises as ``node.system.files``, over a ``Disk``."""

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hermesops.localcloud.drivers.sim.disk import Disk
from hermesops.localcloud.drivers.sim.store import Entry
from hermesops.node.errors import BadRequestError, NotReadyError
from hermesops.node.system.files import Access

_LIMIT = 1024 * 1024


class SimFiles:
    """Reads and writes as root.

    Args:
        disk: The machine's.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._open: dict[int, str] = {}

    @contextmanager
    def opened_folder(self, path: Path) -> Iterator[int]:
        """See ``node.system.files.opened_folder``."""
        if not self._disk.is_folder(str(path)):
            raise NotReadyError(f"{path}: {'Not a directory' if self._disk.look(str(path)) else 'No such file'}")
        descriptor = max(self._open, default=2) + 1
        self._open[descriptor] = str(path)
        try:
            yield descriptor
        finally:
            del self._open[descriptor]

    def read(self, path: Path) -> bytes | None:
        """See ``node.system.files.read``."""
        entry = self._disk.look(str(path))
        if entry is None:
            return None
        if not stat.S_ISREG(entry.mode):
            raise NotReadyError(f"{path}: not a regular file")
        if len(entry.data) > _LIMIT:
            raise NotReadyError(f"{path}: larger than {_LIMIT} bytes")
        return entry.data

    def take(self, path: Path, *, limit: int) -> bytes:
        """See ``node.system.files.take``."""
        entry = self._disk.look(str(path))
        if entry is None:
            raise BadRequestError(f"{path}: No such file or directory")
        if not stat.S_ISDIR(entry.mode):
            self._disk.remove(str(path))
        if not stat.S_ISREG(entry.mode):
            raise BadRequestError(f"{path}: not a regular file")
        if entry.uid or stat.S_IMODE(entry.mode) & 0o077:
            raise BadRequestError(f"{path}: must be root's and closed to others (mode 0600)")
        if len(entry.data) > limit:
            raise BadRequestError(f"{path}: larger than {limit} bytes")
        return entry.data

    def link_target(self, path: Path) -> Path | None:
        """See ``node.system.files.link_target``."""
        entry = self._disk.look(str(path))
        return Path(entry.data.decode()) if entry and stat.S_ISLNK(entry.mode) else None

    def exists(self, folder: int, name: str) -> bool:
        """See ``node.system.files.exists``."""
        return self._disk.look(f"{self._open[folder]}/{name}") is not None

    def tail(self, folder: int, name: str, *, limit: int) -> bytes:
        """See ``node.system.files.tail``."""
        path = f"{self._open[folder]}/{name}"
        between = path.rpartition("/")[0]
        entry = self._disk.look(path)
        if not self._disk.is_folder(between) or entry is None or not stat.S_ISREG(entry.mode):
            return b""
        return entry.data[-limit:]

    def write(self, folder: int, name: str, data: bytes, access: Access) -> None:
        """See ``node.system.files.write``."""
        self._disk.put(f"{self._open[folder]}/{name}", Entry(stat.S_IFREG | access.mode, access.uid, access.gid, data))

    def differs(self, path: Path, data: bytes, access: Access) -> bool:
        """See ``node.system.files.differs``."""
        return self._disk.look(str(path)) != Entry(stat.S_IFREG | access.mode, access.uid, access.gid, data)

    def write_if_changed(self, path: Path, data: bytes, access: Access) -> bool:
        """See ``node.system.files.write_if_changed``."""
        if not self.differs(path, data, access):
            return False
        with self.opened_folder(path.parent) as folder:
            self.write(folder, path.name, data, access)
        return True

    def remove(self, folder: int, name: str) -> bool:
        """See ``node.system.files.remove``."""
        return self._disk.remove(f"{self._open[folder]}/{name}")

    @contextmanager
    def locked(self, path: Path, *, limit_s: float = 0.0) -> Iterator[None]:
        """See ``node.system.files.locked``; requests of a simulated machine never overlap, so nobody waits."""
        del limit_s
        folder = str(path.parent)
        if not self._disk.is_folder(folder):
            self._disk.put(folder, Entry(stat.S_IFDIR | 0o700, 0, 0, b""))
        yield
