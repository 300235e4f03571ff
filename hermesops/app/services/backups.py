"""Composes backups: the object store that settings name, keys from the registry, restic here, hermes-node there."""

import asyncio
from datetime import timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING

from hermesops import child_environment
from hermesops.app.handlers.instances import instance_of
from hermesops.errors import UsageError
from hermesops.operations.kinds import BackupIntent, RestoreIntent

if TYPE_CHECKING:
    from pathlib import Path

    from hermesops.app.container_parts.connected import Connected
    from hermesops.backup.copies import Copies, Nodes
    from hermesops.backup.nightly import Nightly
    from hermesops.backup.pruning import EndedBackups, Pruning
    from hermesops.backup.repository import Repository
    from hermesops.backup.restore_check import Proof
    from hermesops.backup.store.object_store import ObjectStore
    from hermesops.backup.store.repository_contents import RepositoryContents
    from hermesops.backup.store.repository_keys import Keys
    from hermesops.backup.store.restic import Restic
    from hermesops.instances.workflows.backup import BackUp
    from hermesops.instances.workflows.restore import Restore
    from hermesops.model.backup import Backup, Credential
    from hermesops.model.instance import Instance
    from hermesops.model.operation import Lease, Operation

_LOCAL_BUCKET = "backups"


class Backups:
    """Backups of one session's instances.

    Args:
        session: What they are made of.
    """

    def __init__(self, session: "Connected") -> None:
        self._session = session
        self._app = session.app
        self._found: ObjectStore | None = None
        self._finding = asyncio.Lock()

    def copies(self, nodes: "Nodes") -> "Copies":
        """Backups, made and put back by hermes-node under the lease that ``nodes`` has."""
        from hermesops.backup.copies import Copies

        registry = self._app.registry
        return Copies(registry, self.keys, nodes, registry.now, self.proof)

    @cached_property
    def keys(self) -> "Keys":
        """What opens repositories."""
        from hermesops.backup.store.repository_keys import Keys

        return Keys(self._app.registry, self._store, self._app.env.name, self._begin)

    @cached_property
    def proof(self) -> "Proof":
        """Restores backups here, to compare."""
        from hermesops.backup.restore_check import Proof

        registry, tell = self._app.registry, self._app.tell
        if self._is_simulated:
            from hermesops.backup.simulated import SimulatedProof
            from hermesops.localcloud.drivers.sim.node.state import digest_of_copy

            return SimulatedProof(registry, self.keys, self._restic, partial(digest_of_copy, self._app.env.world), tell)
        return Proof(registry, self.keys, self._restic, tell)

    async def open_backup(self, instance: "Instance", *, why: str) -> "Operation":
        """Open a backup of an instance, once the object store answers; also while somebody works on the instance.

        Raises:
            RefusedError: The instance was terminated, or has never started.
        """
        from hermesops.instances.eligibility import refuse_ineligible

        await self.keys.reach()
        opener = self._session.opener
        refuse_ineligible(BackupIntent, instance, opener.unfinished(instance))
        return opener.open(instance, BackupIntent(user=instance.title, why=why))

    async def open_restore(self, instance: "Instance", backup: "Backup", *, keeps: bool, reason: str) -> "Operation":
        """Open a restore of a backup, once the object store answers and the backup fits on the machine.

        Raises:
            RefusedError: Another operation of the instance has not ended, or the backup does not fit.
        """
        from hermesops.instances.remote.data_volume import refuse_without_room

        await self.keys.reach()
        observation = await self._session.instance_client.observe(instance.id)
        if observation.machine is not None and observation.node is not None:
            refuse_without_room(instance, backup, await self._session.instance_client.room(observation.machine.id))
        intent = RestoreIntent(user=instance.title, reason=reason, snapshot=backup.id, keeps=keeps)
        return await self._session.opener.open_eligible(instance, intent)

    def backup_of(self, operation: "Operation", lease: "Lease") -> "BackUp":
        """What makes a backup, from its row."""
        from hermesops.instances.workflows.backup import BackUp

        reach = self._session.instance_client.with_lease(lease)
        why = f"{BackupIntent.of(operation).why} {operation.id}"
        return BackUp(instance_of(operation), why, reach, self.copies(reach))

    def restore_of(self, operation: "Operation", lease: "Lease") -> "Restore":
        """What does a restore, from its row."""
        from hermesops.instances.workflows.restore import Restore

        reach = self._session.instance_client.with_lease(lease)
        return Restore(
            instance_of(operation),
            operation.id,
            RestoreIntent.of(operation),
            registry=self._app.registry,
            client=reach,
            backups=self.copies(reach),
        )

    @cached_property
    def nightly(self) -> "Nightly":
        """Backups whose turn of the day has come."""
        from hermesops.backup.nightly import Nightly

        async def back_up(instance: "Instance") -> str:
            return await self._session.operations.run(await self.open_backup(instance, why="daily"))

        return Nightly(self._app.registry, back_up, at_once=self._app.env.settings.parallel_backups)

    @cached_property
    def pruning(self) -> "Pruning":
        """Takes away backups that no rule keeps."""
        from hermesops.backup.pruning import Pruning
        from hermesops.backup.retention import Keep

        settings = self._app.env.settings
        keep = Keep(settings.backup_keep_daily, settings.backup_keep_weekly, settings.backup_keep_monthly)
        return Pruning(self._app.registry, self._contents, keep)

    @cached_property
    def ended(self) -> "EndedBackups":
        """Takes away the backups of agents that ended long ago."""
        from hermesops.backup.pruning import EndedBackups

        kept = timedelta(days=self._app.env.settings.ended_backups_days)
        return EndedBackups(self._app.registry, self._contents, self.keys.revoke, self._app.hold_lease, kept)

    @property
    def _contents(self) -> "RepositoryContents":
        from hermesops.backup.store.repository_contents import ResticContents, SimulatedContents

        if self._is_simulated:
            from hermesops.localcloud.drivers.sim.node.state import drop_copies

            return SimulatedContents(self._app.registry.backups.list, partial(drop_copies, self._app.env.world))
        return ResticContents(self.keys, self._restic, self._store)

    @cached_property
    def _restic(self) -> "Restic":
        from hermesops.backup.store.restic import Restic

        return Restic(self._app.env.for_child(child_environment.NETWORK), self._credential)

    async def _credential(self) -> "Credential":
        return (await self._store()).credential()

    async def _begin(self, repository: "Repository", password: str) -> None:
        if self._is_simulated:
            return  # simulated machines keep their copies in the world
        await self._restic.begin(repository, password)

    async def _store(self) -> "ObjectStore":
        async with self._finding:
            if self._found is None:
                self._found = await self._local_store() if self._is_local else self._set_store()
            return self._found

    @property
    def _is_simulated(self) -> bool:
        from hermesops.localcloud.world.files import is_simulated

        return self._app.env.is_local and is_simulated(self._app.env.world)

    @property
    def are_kept(self) -> bool:
        """Whether there is anywhere to keep them."""
        return self._is_local or bool(self._app.env.settings.backup_bucket)

    @property
    def _is_local(self) -> bool:
        return self._app.env.is_local and not self._app.env.settings.backup_bucket

    async def _local_store(self) -> "ObjectStore":
        from pathlib import Path

        from hermesops.app.container_parts.local_world import object_store_of
        from hermesops.backup.repository import Bucket
        from hermesops.backup.store.object_store import ObjectStore

        where = await object_store_of(self._app.env, self._app.tell)
        bucket = Bucket(_LOCAL_BUCKET, where["region"], where["endpoint"], where["iam_endpoint"])
        return ObjectStore(bucket, Path(where["key_file"]), is_local=True)

    def _set_store(self) -> "ObjectStore":
        from hermesops.backup.repository import Bucket
        from hermesops.backup.store.object_store import ObjectStore

        settings = self._app.env.settings
        if not settings.backup_bucket:
            raise UsageError(
                f"environment {self._app.env.name} has no backup_bucket: its agents are backed up nowhere",
                hint="hermesops settings show; runbooks/everyday.md says what the bucket needs",
            )
        ca = settings.backup_ca_file.read_text() if settings.backup_ca_file else ""
        bucket = Bucket(
            settings.backup_bucket, settings.backup_region, settings.backup_endpoint, settings.backup_iam_endpoint, ca
        )
        return ObjectStore(bucket, self._key_file)

    @property
    def _key_file(self) -> "Path | None":
        """The platform's key to the bucket; ``None`` where AWS programs find one by themselves."""
        from hermesops.secrets.catalog import BACKUP_KEY

        given, secrets = self._app.env.settings.backup_key_file, self._app.secrets
        return given or (secrets.file(BACKUP_KEY) if secrets.find(BACKUP_KEY) else None)
