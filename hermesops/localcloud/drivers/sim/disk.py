"""The disk of a simulated machine: names and their content, over a base that all such machines share.

That base is what the roles of ``hermes-base`` leave behind, as far as hermes-node reads it. Access rights are for
callers to judge.
"""

import hashlib
import json
import posixpath
import stat
from collections.abc import Iterator, Mapping

from hermesops.localcloud.drivers.sim.store import Entry, Store
from hermesops.model.billing.route import ROUTES
from hermesops.programs.node.instance.agent.installation import BACKUP_USER
from hermesops.programs.node.release.slots.slot import record_of_lock
from hermesops.wire.documents.lock import Blob, Lock, Managed, Node
from hermesops.wire.layout import UNIT
from hermesops.wire.protocol import PROGRAM
from hermesops.wire.settings import ADAPTER_OF

USER, UID = "hermes", 990
HOME = "/var/lib/hermes"
PORT = 8642
AGENT_VERSION = "0.19.0"
PYTHON = "3.11"
_NOTHING = b"simulated\n"
_UNIT = b"[Unit]\nDescription=Hermes Agent gateway, simulated\n[Service]\n"

_GATEWAY = {
    "unit": UNIT,
    "user": USER,
    "home": HOME,
    "port": PORT,
    "routes": [{"name": route.name, "context_tokens": route.context_tokens} for route in ROUTES],
    "adapters": sorted(filter(None, set(ADAPTER_OF.values()))),
    "config": {},
    "environment": {},
    "user_config": {"_config_version": 33},
}


ACCOUNTS: Mapping[str, int] = {"root": 0, USER: UID, BACKUP_USER: UID + 1}
"""Users of a simulated machine."""

_GONE = Entry(0, 0, 0, b"")


def _blob(name: str, content: bytes) -> Blob:
    return Blob(name, hashlib.sha256(content).hexdigest(), len(content))


_RELEASE = Lock(
    agent_version=AGENT_VERSION,
    origin="simulated",
    config_schema=33,
    pythons={},
    uv=_blob("uv", _NOTHING),
    skills=_blob("skills.tar.gz", _NOTHING),
    site=(),
    unit=_blob(UNIT, _UNIT),
    managed=Managed(),
    node=Node(1, _blob("hermes-node", _NOTHING)),
)
RELEASE = _RELEASE.id
"""The release that runs on such a machine at first; no store has it."""


def _file(content: str, *, mode: int = 0o644, uid: int = 0) -> Entry:
    return Entry(stat.S_IFREG | mode, uid, uid, content.encode())


def _folder(*, mode: int = 0o755, uid: int = 0) -> Entry:
    return Entry(stat.S_IFDIR | mode, uid, uid, b"")


BASE: Mapping[str, Entry] = {
    "/etc": _folder(),
    "/etc/hermes": Entry(stat.S_IFDIR | 0o750, 0, UID, b""),
    "/etc/hermes-node": _folder(mode=0o700),
    "/etc/hermes-node/gateway.json": _file(json.dumps(_GATEWAY, sort_keys=True, indent=1) + "\n", mode=0o600),
    "/etc/systemd": _folder(),
    "/etc/systemd/system": _folder(),
    f"/etc/systemd/system/{UNIT}": _file(_UNIT.decode()),
    "/etc/os-release": _file('ID=debian\nVERSION_ID="12"\nPRETTY_NAME="a simulated machine"\n'),
    "/opt": _folder(),
    "/opt/hermes": _folder(),
    "/opt/hermes/current": Entry(stat.S_IFLNK | 0o777, 0, 0, f"releases/{RELEASE}".encode()),
    "/opt/hermes/node": _folder(),
    PROGRAM: _file("a simulated machine runs hermes-node without a file\n", mode=0o755),
    f"/opt/hermes/releases/{RELEASE}": _folder(),
    f"/opt/hermes/releases/{RELEASE}/{UNIT}": _file(_UNIT.decode()),
    f"/opt/hermes/releases/{RELEASE}/release.json": _file(record_of_lock(_RELEASE, PYTHON).decode()),
    "/root": _folder(mode=0o700),
    "/run": _folder(),
    "/run/hermes-metrics": _folder(),
    "/run/hermes-node": _folder(mode=0o700),
    "/srv": _folder(),
    "/tmp": _folder(mode=0o1777),  # noqa: S108 - a machine's own
    "/usr": _folder(),
    "/var": _folder(),
    "/var/lib": _folder(),
    HOME: _folder(mode=0o700, uid=UID),
}
"""Names of the base, by absolute path."""


class Disk:
    """The disk of one machine or one image; ``owner`` is its id."""

    def __init__(self, store: Store, owner: str) -> None:
        self._store = store
        self._owner = owner

    def entry(self, path: str) -> Entry | None:
        """The entry of a name; a link is not followed."""
        entry = self._store.entry(self._owner, path)
        if entry is None:
            entry = BASE.get(path)
        if entry is None and (path == "/" or self._store.below(self._owner, path)):
            return Entry(stat.S_IFDIR | 0o755, 0, 0, b"")  # the parent of something that was uploaded
        return entry if entry is not None and entry.mode else None

    def is_folder(self, path: str) -> bool:
        """Whether a name is a folder."""
        entry = self.entry(path)
        return entry is not None and stat.S_ISDIR(entry.mode)

    def put(self, path: str, entry: Entry) -> None:
        """Write the content of a name, replacing any entry."""
        self._store.put_entry(self._owner, path, entry)

    def remove(self, path: str) -> bool:
        """Remove a name with everything below it; return whether it existed."""
        if self.entry(path) is None:
            return False
        with self._store.change():
            for each in (path, *self.below(path)):
                self._store.drop_entry(self._owner, each)
                if each in BASE:
                    self._store.put_entry(self._owner, each, _GONE)
        return True

    def below(self, folder: str) -> dict[str, Entry]:
        """Entries of all names below a folder, at any depth."""
        begin = f"{folder.rstrip('/')}/"
        entries = {path: entry for path, entry in BASE.items() if path.startswith(begin)}
        entries |= self._store.below(self._owner, folder)
        return {path: entries[path] for path in sorted(entries) if entries[path].mode}

    def forget_memory(self) -> None:
        """Remove everything below ``/run``, as a reboot does."""
        with self._store.change():
            for path in self._store.below(self._owner, "/run"):
                self._store.drop_entry(self._owner, path)


def names_in(folder: str, disk: Disk) -> Iterator[str]:
    """The names directly in a folder."""
    yield from sorted({path[len(folder.rstrip("/")) + 1 :].split("/", 1)[0] for path in disk.below(folder)})


def normal(path: str) -> str:
    """An absolute path without dots and doubled slashes."""
    return posixpath.normpath("/" + path.lstrip("/"))
