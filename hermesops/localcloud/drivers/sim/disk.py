"""The disk of one simulated machine: names and their content, laid over what every such machine has.

It must not know who asks; rights are for callers to judge.
"""

import posixpath
import stat
from collections.abc import Iterator

from hermesops.localcloud.drivers.sim.software import BASE
from hermesops.localcloud.drivers.sim.store import Entry, Store

_GONE = Entry(0, 0, 0, b"")


class Disk:
    """One machine's, or one image's.

    Args:
        store: Where it is kept.
        owner: Id of the machine or image.
    """

    def __init__(self, store: Store, owner: str) -> None:
        self._store = store
        self._owner = owner

    def look(self, path: str) -> Entry | None:
        """What a name is; a link is not followed."""
        entry = self._store.entry(self._owner, path)
        if entry is None:
            entry = BASE.get(path)
        if entry is None and (path == "/" or self._store.below(self._owner, path)):
            return Entry(stat.S_IFDIR | 0o755, 0, 0, b"")  # the parent of something that was uploaded
        return entry if entry is not None and entry.mode else None

    def is_folder(self, path: str) -> bool:
        """Whether a name is a folder."""
        entry = self.look(path)
        return entry is not None and stat.S_ISDIR(entry.mode)

    def put(self, path: str, entry: Entry) -> None:
        """Give a name content, whatever it was."""
        self._store.put_entry(self._owner, path, entry)

    def remove(self, path: str) -> bool:
        """Take a name away, with everything below it; whether there was one."""
        if self.look(path) is None:
            return False
        with self._store.change():
            for each in (path, *self.below(path)):
                self._store.drop_entry(self._owner, each)
                if each in BASE:
                    self._store.put_entry(self._owner, each, _GONE)
        return True

    def below(self, folder: str) -> dict[str, Entry]:
        """Every name below a folder, at any depth."""
        begin = f"{folder.rstrip('/')}/"
        found = {path: entry for path, entry in BASE.items() if path.startswith(begin)}
        found |= self._store.below(self._owner, folder)
        return {path: found[path] for path in sorted(found) if found[path].mode}

    def forget_memory(self) -> None:
        """Lose what a reboot loses: everything below ``/run``."""
        with self._store.change():
            for path in self._store.below(self._owner, "/run"):
                self._store.drop_entry(self._owner, path)


def names_in(folder: str, disk: Disk) -> Iterator[str]:
    """The names that a folder itself holds."""
    yield from sorted({path[len(folder.rstrip("/")) + 1 :].split("/", 1)[0] for path in disk.below(folder)})


def normal(path: str) -> str:
    """An absolute path without dots and doubled slashes."""
    return posixpath.normpath("/" + path.lstrip("/"))
