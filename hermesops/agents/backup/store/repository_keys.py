"""Keys of an instance's repository: a password, created once, and a credential, replaced on request.

The platform creates a repository: its credential may list the whole bucket, a machine's may not.
"""

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from hermesops.agents.backup.recovery_records import RecoveryRecords
from hermesops.agents.backup.store.object_store import ObjectStore
from hermesops.agents.backup.store.repository import Bucket, Repository, user_of
from hermesops.base.network.aws_client import call
from hermesops.model.ids import InstanceId
from hermesops.model.recovery.backup import Credential
from hermesops.store.registry import Registry
from hermesops.store.registry.transactions.recovery_records import TakenBack


@dataclass(frozen=True)
class Opened:
    """A repository with its password and credential."""

    repository: Repository
    password: str = field(repr=False)
    credential: Credential


class Keys:
    """Keys of repositories, made when first asked for.

    Args:
        store: Finds the object store, which may have to be started.
        environment: Its name begins every repository's.
        begin: Begins a repository that has none of restic's files yet; safe to call twice.
        records: Keeps the password where it outlives the registry.
    """

    def __init__(
        self,
        registry: Registry,
        store: Callable[[], Awaitable[ObjectStore]],
        environment: str,
        begin: Callable[[Repository, str], Awaitable[None]],
        records: RecoveryRecords,
    ) -> None:
        self._registry = registry
        self._store = store
        self._environment = environment
        self._begin = begin
        self._records = records

    async def reach(self) -> Bucket:
        """Make sure that the object store answers, and takes backups.

        Raises:
            UnavailableError: It does not answer.
            RefusedError: It keeps no versions of overwritten objects.
        """
        store = await self._store()
        await call(store.prepare)
        await call(store.answers)  # a worker prepared it days ago
        return store.bucket

    async def for_platform(self, instance_id: InstanceId) -> tuple[Repository, str]:
        """An instance's repository and its password, for the platform itself."""
        store = await self._store()
        await call(store.prepare)
        return store.bucket.repository(self._environment, instance_id), await self._password_of(instance_id)

    async def open(self, instance_id: InstanceId) -> Opened:
        """A repository that its instance's machine can work with.

        Raises:
            UnavailableError: The object store does not answer.
        """
        repository, password = await self.for_platform(instance_id)
        keys = self._registry.backups.repository_keys(instance_id)
        if keys and keys.credential:
            return Opened(repository, password, keys.credential)
        await self._records.save(instance_id)  # before anything is encrypted with the password
        await self._begin(repository, password)
        return Opened(repository, password, await self._issue(instance_id, repository, why="first backup"))

    async def rotate(self, instance_id: InstanceId, *, why: str) -> None:
        """Give an instance a new credential; the one before ends once the new one is remembered."""
        await self._issue(instance_id, (await self.open(instance_id)).repository, why=why)

    async def revoke(self, instance_id: InstanceId) -> None:
        """Revoke the credential of an instance's machine for its repository; the backups stay. Safe to call twice.

        Raises:
            UnavailableError: The object store does not answer; it is asked only where something was issued.
        """
        keys = self._registry.backups.repository_keys(instance_id)
        if keys is None or keys.credential is None:
            return
        await self.reach()
        await call((await self._store()).revoke, self._user(instance_id))

    async def save_record(self, instance_id: InstanceId) -> TakenBack:
        """Save the keys of the repository outside the registry; see ``RecoveryRecords.save``."""
        return await self._records.save(instance_id)

    async def remove_record(self, instance_id: InstanceId) -> None:
        """Delete the recovery record, once the repository is erased; safe to call twice."""
        await self._records.remove(instance_id)

    async def _password_of(self, instance_id: InstanceId) -> str:
        """The password, made where there is none; a registry that was lost takes back the one that it had."""
        if keys := self._registry.backups.repository_keys(instance_id):
            return keys.password
        await self._records.take_back(instance_id)
        if keys := self._registry.backups.repository_keys(instance_id):
            return keys.password
        return self._registry.backups.make_repository(instance_id, secrets.token_urlsafe(32))

    async def _issue(self, instance_id: InstanceId, repository: Repository, *, why: str) -> Credential:
        store, user = await self._store(), self._user(instance_id)
        keys = self._registry.backups.repository_keys(instance_id)
        before = keys.credential.access_key if keys and keys.credential else ""
        credential = await call(store.issue, user, repository, keep=before)
        self._registry.backups.keep_credential(instance_id, credential, why=why)
        await call(store.retire, user, keep=credential.access_key)
        return credential

    def _user(self, instance_id: InstanceId) -> str:
        return user_of(self._environment, instance_id)
