"""hermes-node's port ``State`` on a simulated machine: the same guarantees as ``node.state.adapter``, over a ``Disk``.

Copies are in the world's own database, in repositories known by their place and opened by their password; the platform
reads them there too, as it reads real ones from their repositories. A simulated agent has no database: its sessions and
messages are always none, and its jobs are those of its gateway.
"""

import hashlib
import json
import sqlite3
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO
from uuid import uuid4

from hermesops.localcloud.drivers.sim.agent.gateway import Gateway
from hermesops.localcloud.drivers.sim.disk import Disk
from hermesops.localcloud.drivers.sim.store import FILE, Entry, Store
from hermesops.programs.node.state import export as rows
from hermesops.programs.node.state.adapter import Copied
from hermesops.programs.node.state.config_changes import WHOLE, SettingsResult, migrate_changes
from hermesops.programs.node.state.snapshots import RestoreResult
from hermesops.programs.node.state.user_config import schema_in
from hermesops.programs.node.system.as_user import AgentHome
from hermesops.programs.node.system.files import Access
from hermesops.programs.node.system.restic import Repository
from hermesops.wire.errors import RefusedError
from hermesops.wire.layout import DRAIN_MARKER
from hermesops.wire.state.contents import OURS
from hermesops.wire.state.digest import Digest, is_document, is_hashed

_JOBS = "cron/jobs.json"


_TIMEOUT_S = 30.0
"""For the world, which writes too."""


class SimState:
    """The state of one machine; ``owner`` is its id."""

    def __init__(self, store: Store, owner: str, disk: Disk, gateway: Gateway) -> None:
        self._store = store
        self._owner = owner
        self._disk = disk
        self._gateway = gateway

    def observe(self, home: AgentHome) -> tuple[dict[str, Any], int]:
        files = dict(self._content(home))
        used = sum(len(entry.data) for entry in self._disk.below(str(home.path)).values())
        return digest_of(files), used

    def check_databases(self, home: AgentHome) -> dict[str, bool]:
        """See ``node.state.adapter.check_databases``: a simulated agent has none."""
        del home
        return {}

    def save(self, home: AgentHome, repository: Repository, access: Access) -> Copied:
        del access
        copies = self._opened(repository)
        files = dict(self._content(home))
        state, size = digest_of(files), sum(len(entry.data) for entry in files.values())
        summary = json.dumps({"bytes": size, "state": state}, sort_keys=True)
        added = 0 if copies and copies[-1][1] == summary else size
        snapshot = uuid4().hex + uuid4().hex
        with self._store.change():
            for name, entry in files.items():
                self._store.put_entry(snapshot, f"/{name}", entry)
            self._store.put_copy(repository.place, snapshot, _lock(repository), summary)
        return Copied(snapshot, size, added, 0, state)

    def fetch(self, home: AgentHome, repository: Repository, access: Access) -> Copied:
        del access
        prefix = "" if repository.snapshot == "latest" else repository.snapshot
        fitting = [copy for copy in self._opened(repository) if copy[0].startswith(prefix)]
        if not fitting:
            raise RefusedError(f"restic: the repository has no snapshot {prefix or 'at all'}")
        snapshot, text = fitting[-1]
        summary = json.loads(text)
        with self._store.change():
            self._disk.remove(self._ours(home, "ready"))
            self._disk.put(self._ours(home, "ready"), Entry(stat.S_IFDIR | 0o700, 0, 0, b""))
            for path, entry in self._store.below(snapshot, "/").items():
                self._disk.put(f"{self._ours(home, 'ready')}{path}", entry)
        return Copied(snapshot, summary["bytes"], 0, 0, summary["state"])

    def switch(self, home: AgentHome) -> None:
        """See ``node.state.adapter.switch``; here it is one step."""
        ready = self._ours(home, "ready")
        if self._disk.entry(ready) is None:
            return
        with self._store.change():
            before, coming = dict(self._content(home)), self._disk.below(ready)
            self._disk.remove(self._ours(home, "former"))
            for name in before:
                self._disk.remove(f"{home.path}/{name}")
            self._disk.remove(ready)
            for name, entry in before.items():
                self._disk.put(f"{self._ours(home, 'former')}/{name}", entry)
            jobs = coming.pop(f"{ready}/{_JOBS}", None)
            for path, entry in coming.items():
                self._disk.put(f"{home.path}{path.removeprefix(ready)}", entry)
            self._gateway.put_jobs(json.loads(jobs.data)["jobs"] if jobs else [])

    def settle(self, home: AgentHome) -> None:
        self.switch(home)

    def forget(self, home: AgentHome) -> None:
        self._disk.remove(self._ours(home, ""))

    def keep(self, home: AgentHome, name: str) -> None:
        """See ``node.state.adapter.keep``: a simulated agent has no databases."""

    def keep_config(self, home: AgentHome) -> None:
        """Keep the configuration for releases of its schema, as ``node.state.user_config.keep`` does."""
        config = self._config(home)
        if config is not None and (schema := schema_in(config.data)) is not None:
            self._disk.put(self._ours(home, f"configs/{schema}.yaml"), config)

    def keep_migrated_config(self, home: AgentHome) -> None:
        """Keep the configuration after its migration, as ``node.state.user_config.keep_migrated`` does."""
        config = self._config(home)
        if config is not None and (schema := schema_in(config.data)) is not None:
            self._disk.put(self._ours(home, f"configs/{schema}.migrated"), config)

    def take_config_back(self, home: AgentHome, schema: int) -> RestoreResult:
        """See ``node.state.user_config.take_back``; here it is one step."""
        config, older = self._config(home), self._older_config(home, schema)
        if config is None or older is None:
            return RestoreResult()
        text, settings = self._with_changes(home, config, older)
        with self._store.change():
            self._disk.put(self._ours(home, f"configs/{schema_in(config.data)}.yaml"), config)
            self._disk.put(f"{home.path}/config.yaml", replace(older, data=text.encode()))
        return RestoreResult(settings_migrated=settings.migrated, settings_lost=settings.lost)

    def preview_config(self, home: AgentHome, schema: int) -> RestoreResult:
        """The losses if ``take_config_back`` ran now; nothing is written."""
        config, older = self._config(home), self._older_config(home, schema)
        if config is None or older is None:
            return RestoreResult()
        _, settings = self._with_changes(home, config, older)
        return RestoreResult(settings_migrated=settings.migrated, settings_lost=settings.lost)

    def _older_config(self, home: AgentHome, schema: int) -> Entry | None:
        """The kept configuration for a release of a schema; ``None`` where it reads the present one."""
        config = self._config(home)
        present = schema_in(config.data) if config is not None else None
        if present is None or present <= schema:
            return None
        folder = self._ours(home, "configs")
        kept = {path: entry for path, entry in self._disk.below(folder).items() if path.endswith(".yaml")}
        older = {number: entry for entry in kept.values() if (number := schema_in(entry.data) or 0) <= schema}
        return older[max(older)] if older else None

    def _with_changes(self, home: AgentHome, config: Entry, older: Entry) -> tuple[str, SettingsResult]:
        """The older configuration with the changes to the present one since its migration."""
        base = self._disk.entry(self._ours(home, f"configs/{schema_in(config.data)}.migrated"))
        if base is None:
            return older.data.decode(), SettingsResult(lost=(WHOLE,))
        return migrate_changes(base.data.decode(), config.data.decode(), older.data.decode())

    def preview(self, home: AgentHome, name: str) -> RestoreResult:
        del home, name
        return RestoreResult()

    def restore(self, home: AgentHome, name: str) -> RestoreResult:
        return self.preview(home, name)

    def prune(self, home: AgentHome, *, older_than_s: float) -> int:
        del home, older_than_s
        return 0

    def export(self, home: AgentHome, out: TextIO) -> None:
        rows.write_rows(
            (row for name, entry in self._content(home) for row in rows.rows_of(name.encode(), entry.data.decode)), out
        )

    def _content(self, home: AgentHome) -> Iterator[tuple[str, Entry]]:
        """The files that belong to a copy, by name below the home."""
        begin = f"{home.path}/"
        ours = OURS.decode()
        for path, entry in self._disk.below(str(home.path)).items():
            name = path.removeprefix(begin)
            if name.partition("/")[0] not in {ours, DRAIN_MARKER} and stat.S_ISREG(entry.mode) and name != _JOBS:
                yield name, entry
        data = json.dumps({"jobs": self._gateway.jobs}, sort_keys=True).encode()
        yield _JOBS, Entry(stat.S_IFREG | 0o600, home.access.uid, home.access.gid, data)

    def _opened(self, repository: Repository) -> list[tuple[str, str]]:
        copies = self._store.copies(repository.place)
        if any(opened_by != _lock(repository) for _, opened_by, _ in copies):
            raise RefusedError("restic: wrong password for the repository")
        return [(copy_id, summary) for copy_id, _, summary in copies]

    def _config(self, home: AgentHome) -> Entry | None:
        return self._disk.entry(f"{home.path}/config.yaml")

    def _ours(self, home: AgentHome, name: str) -> str:
        return f"{home.path}/{OURS.decode()}/{name}".rstrip("/")


def _lock(repository: Repository) -> str:
    return hashlib.sha256(f"{repository.place}\n{repository.password}".encode()).hexdigest()


def digest_of(files: Mapping[str, Entry]) -> dict[str, Any]:
    """The digest of files, by their names below the home."""
    digest = Digest()
    for name, entry in files.items():
        if is_document(name.encode()):
            digest.document(name.encode(), entry.data)
        elif is_hashed(name.encode()):
            digest.file(name.encode(), hashlib.sha256(entry.data).hexdigest())
    return digest.result()


def digest_of_copy(world: Path, snapshot: str) -> dict[str, Any] | None:
    """The digest of a copy in a world, computed from its files; ``None`` when there is no such copy."""
    with sqlite3.connect(f"file:{world / FILE}?mode=ro", uri=True) as db:
        if db.execute("SELECT 1 FROM copies WHERE id = ?", (snapshot,)).fetchone() is None:
            return None
        rows = db.execute("SELECT path, mode, uid, gid, data FROM files WHERE owner = ?", (snapshot,)).fetchall()
    return digest_of({path.removeprefix("/"): Entry(*rest) for path, *rest in rows})


def drop_copies(world: Path, snapshots: Sequence[str]) -> None:
    """Remove copies from a world; absent copies are success."""
    with closing(sqlite3.connect(world / FILE, timeout=_TIMEOUT_S)) as db, db:
        for snapshot in snapshots:
            db.execute("DELETE FROM copies WHERE id = ?", (snapshot,))
            db.execute("DELETE FROM files WHERE owner = ?", (snapshot,))
