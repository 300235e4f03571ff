"""Backups of instances: the object store that settings name, keys from the registry, restic here, hermes-node there."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property, partial
from pathlib import Path

from hermesops.access.secrets.catalog import BACKUP_KEY
from hermesops.access.secrets.store import Secrets
from hermesops.agents.backup.copies import Copies
from hermesops.agents.backup.daily.nightly import Nightly
from hermesops.agents.backup.proof.restore_check import Proof
from hermesops.agents.backup.recovery_records import RecoveryRecords
from hermesops.agents.backup.retention.pruning import EndedBackups, Pruning
from hermesops.agents.backup.retention.rules import Keep
from hermesops.agents.backup.store.object_store import ObjectStore
from hermesops.agents.backup.store.repository import Bucket, Repository
from hermesops.agents.backup.store.repository_contents import RepositoryContents
from hermesops.agents.backup.store.repository_keys import Keys
from hermesops.agents.backup.store.restic import Restic
from hermesops.agents.instances.remote.data_volume import refuse_without_room
from hermesops.agents.instances.remote.power_control import PowerControl
from hermesops.agents.instances.requests.eligibility import BACK_UP
from hermesops.agents.instances.requests.opening import OperationOpener
from hermesops.agents.instances.workflows.copies.backup import BackUp
from hermesops.agents.instances.workflows.copies.restore import Restore
from hermesops.base import child_environment
from hermesops.base.fan_out import Limits, problems
from hermesops.errors import Hint, UsageError
from hermesops.localcloud.world.files import WorldFiles
from hermesops.model.fleet.instance import Instance
from hermesops.model.ids import instance_subject
from hermesops.model.operation import Lease, Operation
from hermesops.model.recovery.backup import Backup, Credential
from hermesops.settings.environment import Environment
from hermesops.store.operations.kinds.copies import BackupIntent, RestoreIntent
from hermesops.store.operations.kinds.instance_intent import instance_of
from hermesops.store.operations.leases.keeper import LeaseKeeper
from hermesops.store.registry import Registry

_FIRST_RECORD = Limits(at_once=1, slow_after_s=10.0, within_s=10.0)


@dataclass
class BackupStore:
    """Finds the object store once.

    Attributes:
        local_store: The local world's object store, which may have to be built and started.
    """

    env: Environment
    secrets: Secrets
    local_store: Callable[[], Awaitable[ObjectStore]]
    _found: ObjectStore | None = field(default=None, init=False)
    _finding: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    @property
    def exists(self) -> bool:
        """Whether the environment has an object store for backups: a configured bucket, or that of a local world."""
        return self._is_local or bool(self.env.settings.backup.bucket)

    @property
    def holds_anything(self) -> bool:
        """Whether something can have been kept in it: a local world has none before its first backup."""
        return self.exists and not (self._is_local and not WorldFiles(self.env.world).object_store.exists())

    async def find(self) -> ObjectStore:
        """The object store.

        Raises:
            UsageError: None is set.
            UnavailableError: The local world is down, or its object store could not be built.
        """
        async with self._finding:
            if self._found is None:
                self._found = await self.local_store() if self._is_local else self._of_settings()
            return self._found

    @property
    def _is_local(self) -> bool:
        return self.env.is_local and not self.env.settings.backup.bucket

    def _of_settings(self) -> ObjectStore:
        settings = self.env.settings
        if not settings.backup.bucket:
            raise UsageError(
                f"environment {self.env.name} has no backup.bucket: its agents have no backups",
                hint=Hint(("settings", "show"), "; runbooks/everyday.md describes the bucket"),
            )
        backup = settings.backup
        ca = backup.ca_file.read_text() if backup.ca_file else ""
        bucket = Bucket(
            backup.bucket, backup.region, backup.endpoint, backup.iam_endpoint, ca, user_boundary=backup.user_boundary
        )
        return ObjectStore(bucket, self._key_file, ca_file=settings.backup.ca_file)

    @property
    def _key_file(self) -> Path | None:
        """The platform's key to the bucket; ``None`` where AWS programs find one by themselves."""
        key_file = self.env.settings.backup.key_file
        return key_file or (self.secrets.file(BACKUP_KEY) if self.secrets.find(BACKUP_KEY) else None)


FindStore = Callable[[], Awaitable[ObjectStore]]
MakeProof = Callable[[Registry, Keys, Restic, Callable[[str], None]], Proof]
MakeContents = Callable[[Registry, Keys, Restic, FindStore], RepositoryContents]


@dataclass(frozen=True)
class Backups:
    """Backups of an environment's instances.

    Attributes:
        make_proof: Makes the restoring of backups on this computer; a simulated world's counts copies in its memory.
        make_contents: Makes the reader of repositories' contents.
        begin_repository: Makes an instance's repository, with its password.
    """

    env: Environment
    registry: Registry
    store: BackupStore
    make_proof: MakeProof
    make_contents: MakeContents
    begin_repository: Callable[[Restic, Repository, str], Awaitable[None]]
    instance_client: PowerControl
    opener: OperationOpener
    run: Callable[[Operation], Awaitable[str]]
    records: RecoveryRecords
    report: Callable[[str], None]

    def copies(self, nodes: PowerControl) -> Copies:
        """Backups, made and restored by hermes-node under the lease of ``nodes``."""
        return Copies(self.registry, self.keys, nodes, self.registry.now, self.proof)

    @cached_property
    def keys(self) -> Keys:
        """Gives the passwords and credentials of repositories, created on first use."""
        return Keys(self.registry, self.store.find, self.env.name, self._begin, self.records)

    @cached_property
    def proof(self) -> Proof:
        """Restores backups on this computer, to compare them."""
        return self.make_proof(self.registry, self.keys, self._restic, self.report)

    async def open_backup(self, instance: Instance, *, why: str, reason: str | None = None) -> Operation:
        """Open a backup of an instance, once the object store answers; also while somebody works on the instance.

        Args:
            reason: Of the request; ``None`` for one that has none.

        Raises:
            RefusedError: The instance was terminated, or has never started.
        """
        await self.keys.reach()
        BACK_UP.refuse(instance, self.opener.unfinished(instance))
        return self.opener.open(instance, BackupIntent(user=instance.title, why=why, reason=reason))

    async def save_first_record(self, instance: Instance) -> None:
        """Save the recovery record of a new instance, before its first backup.

        A failure is only reported: the agent runs, and the hourly job repeats it. A local world whose object store was
        never needed gets the record with its first backup.
        """
        if not self.store.holds_anything:
            return
        outcome = await problems({instance.title: instance.id}, self.records.save, _FIRST_RECORD)
        if problem := outcome[instance.title]:
            self.report(f"the recovery record was not saved; the job recovery-records tries again: {problem}")

    async def open_restore(self, instance: Instance, backup: Backup, *, keeps: bool, reason: str) -> Operation:
        """Open a restore of a backup, once the object store answers and the backup fits on the machine.

        Raises:
            RefusedError: Another operation of the instance has not ended, or the backup does not fit.
        """
        await self.keys.reach()
        observation = await self.instance_client.observe(instance.id)
        if observation.machine is not None and observation.node is not None:
            refuse_without_room(instance, backup, await self.instance_client.room(observation.machine.id))
        intent = RestoreIntent(user=instance.title, reason=reason, snapshot=backup.id, keeps=keeps)
        return await self.opener.open_eligible(instance, intent)

    async def prune(self, user: str = "", *, reason: str = "") -> dict[str, int]:
        """Delete backups that no retention rule keeps; how many of each instance, by its title.

        Args:
            user: A user, by any name, to prune one instance; empty for all.
            reason: An operator's, for the audit; empty for none.

        Raises:
            UsageError: There is no such user.
        """
        instances = self.registry.instances
        chosen = [instances.find(user)] if user else instances.list()
        return {instance.title: len(await self.pruning.prune(instance.id, why=reason)) for instance in chosen}

    async def rotate_key(self, instance: Instance, *, reason: str = "") -> None:
        """Give an instance's machine another key to its repository; the key before opens it no more.

        Raises:
            LeaseHeldError: Another process works on the instance.
        """
        async with LeaseKeeper(self.registry, instance_subject(instance.id)):
            await self.keys.rotate(instance.id, why=reason or "rotated")

    def backup_of(self, operation: Operation, lease: Lease) -> BackUp:
        """The workflow of a backup, from its row."""
        client = self.instance_client.with_lease(lease)
        why = f"{BackupIntent.of(operation).why} {operation.id}"
        return BackUp(instance_of(operation), why, client, self.copies(client))

    def restore_of(self, operation: Operation, lease: Lease) -> Restore:
        """The workflow of a restore, from its row."""
        client = self.instance_client.with_lease(lease)
        return Restore(
            instance_of(operation),
            operation.id,
            RestoreIntent.of(operation),
            registry=self.registry,
            client=client,
            backups=self.copies(client),
        )

    @cached_property
    def nightly(self) -> Nightly:
        """Makes the daily backups that are due."""

        async def back_up(instance: Instance) -> str:
            return await self.run(await self.open_backup(instance, why="daily"))

        return Nightly(self.registry, back_up, at_once=self.env.settings.parallel_backups)

    @cached_property
    def pruning(self) -> Pruning:
        """Removes backups that no retention rule keeps."""
        settings = self.env.settings
        keep = Keep(settings.backup.keep_daily, settings.backup.keep_weekly, settings.backup.keep_monthly)
        return Pruning(self.registry, self._contents, keep)

    @cached_property
    def ended(self) -> EndedBackups:
        """Removes the backups of instances that were terminated long ago."""
        keep_for = timedelta(days=self.env.settings.ended_backups_days)
        return EndedBackups(
            self.registry,
            self._contents,
            self.keys.revoke,
            self.keys.remove_record,
            partial(LeaseKeeper, self.registry),
            keep_for,
        )

    @property
    def _contents(self) -> RepositoryContents:
        return self.make_contents(self.registry, self.keys, self._restic, self.store.find)

    @cached_property
    def _restic(self) -> Restic:
        environ, ca_file = self.env.for_child(child_environment.NETWORK), self.env.settings.backup.ca_file
        return Restic(environ, self._credential, ca_file=ca_file)

    async def _credential(self) -> Credential:
        return (await self.store.find()).credential()

    async def _begin(self, repository: Repository, password: str) -> None:
        await self.begin_repository(self._restic, repository, password)

    @property
    def are_kept(self) -> bool:
        """Whether this environment has an object store."""
        return self.store.exists
