"""Composes backups: the object store that settings name, keys from the registry, restic here, hermes-node there."""

import asyncio
import sys
from functools import cached_property
from typing import TYPE_CHECKING

from hermesops.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermesops.app.session import Session
    from hermesops.backup.copies import Nodes
    from hermesops.backup.keys import Keys
    from hermesops.backup.object_store import ObjectStore
    from hermesops.backup.proof import Proof, ProvedCopies
    from hermesops.backup.repository import Repository
    from hermesops.backup.restic import Restic
    from hermesops.backup.retention import Keep
    from hermesops.model.backup import Backup, Credential
    from hermesops.model.ids import InstanceId

_LOCAL_BUCKET = "backups"


class Backups:
    """Backups of one session's instances.

    Args:
        session: What they are made of.
    """

    def __init__(self, session: "Session") -> None:
        self._session = session
        self._app = session.app
        self._found: ObjectStore | None = None
        self._finding = asyncio.Lock()

    def copies(self, nodes: "Nodes") -> "ProvedCopies":
        """Backups, made and put back by hermes-node under the lease that ``nodes`` has."""
        from hermesops.backup.proof import ProvedCopies

        registry = self._app.registry
        return ProvedCopies(registry, self.keys, nodes, registry.now, self.proof)

    @cached_property
    def keys(self) -> "Keys":
        """What opens repositories."""
        from hermesops.backup.keys import Keys

        return Keys(self._app.registry, self._store, self._app.env.name, self._begin)

    @cached_property
    def proof(self) -> "Proof":
        """Restores backups here, to compare."""
        from hermesops.backup.proof import Proof
        from hermesops.node.errand import WORD

        unpack = [sys.executable, "-m", "hermesops.node", WORD, "unpack"]
        return Proof(self._app.registry, self.keys, self._restic, unpack, self._app.tell)

    async def prune(self, instance_id: "InstanceId") -> "list[str]":
        """Take away an instance's backups that no rule keeps; ids of those that went.

        What is in the repository counts, not what the registry remembers of it.
        """
        from hermesops.backup.retention import going

        registry = self._app.registry
        rows = {backup.id: backup for backup in registry.list_backups(instance_id)}
        repository, password = await self.keys.look(instance_id)
        made = {one.id: one.at for one in await self._restic.snapshots(repository, password)}
        gone = going(made, self._keep, registry.now(), spared=_spared(rows))
        if gone:
            await self._restic.forget(repository, password, gone)
        registry.forget_backups(instance_id, [id_ for id_ in rows if id_ not in made or id_ in gone], why="retention")
        return gone

    @property
    def _keep(self) -> "Keep":
        from hermesops.backup.retention import Keep

        settings = self._app.env.settings
        return Keep(settings.backup_keep_daily, settings.backup_keep_weekly, settings.backup_keep_monthly)

    @cached_property
    def _restic(self) -> "Restic":
        from hermesops.backup.restic import Restic

        return Restic(self._app.env.inherited, self._credential)

    async def _credential(self) -> "Credential":
        return (await self._store()).credential()

    async def _begin(self, repository: "Repository", password: str) -> None:
        from hermesops.localcloud.kind import is_simulated

        env = self._app.env
        if env.is_local and is_simulated(env.world):
            return  # simulated machines keep their copies in the world
        await self._restic.begin(repository, password)

    async def _store(self) -> "ObjectStore":
        async with self._finding:
            if self._found is None:
                self._found = await self._local_store() if self._is_local else self._set_store()
            return self._found

    @property
    def _is_local(self) -> bool:
        return self._app.env.is_local and not self._app.env.settings.backup_bucket

    async def _local_store(self) -> "ObjectStore":
        from pathlib import Path

        from hermesops.app.local_world import object_store_of
        from hermesops.backup.object_store import ObjectStore
        from hermesops.backup.repository import Bucket

        where = await object_store_of(self._app.env, self._app.tell)
        bucket = Bucket(_LOCAL_BUCKET, where["region"], where["endpoint"], where["iam_endpoint"])
        return ObjectStore(bucket, Path(where["key_file"]), is_local=True)

    def _set_store(self) -> "ObjectStore":
        from hermesops.backup.object_store import ObjectStore
        from hermesops.backup.repository import Bucket

        settings = self._app.env.settings
        if not settings.backup_bucket:
            raise UsageError(
                f"environment {self._app.env.name} has no backup_bucket: its agents are backed up nowhere",
                hint="hermesops settings show; images/tools/README.md says what the bucket needs",
            )
        ca = settings.backup_ca_file.read_text() if settings.backup_ca_file else ""
        bucket = Bucket(
            settings.backup_bucket, settings.backup_region, settings.backup_endpoint, settings.backup_iam_endpoint, ca
        )
        return ObjectStore(bucket, settings.backup_key_file)


def _spared(rows: "Mapping[str, Backup]") -> "list[str]":
    """Last backups of agents that end, which somebody may want back."""
    return [id_ for id_, backup in rows.items() if backup.why.startswith(("last", "before farewell"))]
