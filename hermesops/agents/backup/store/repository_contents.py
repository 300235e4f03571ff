"""The snapshots in repositories, listed and deleted by the platform; machines may do neither."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from hermesops.agents.backup.store.object_store import ObjectStore
from hermesops.agents.backup.store.repository_keys import Keys
from hermesops.agents.backup.store.restic import Restic
from hermesops.base.network.aws_client import call
from hermesops.model.ids import InstanceId

_ERASE_S = 1800.0
"""Seconds that erasing a repository has: a request an object, and some ten thousand of those."""


class RepositoryContents(Protocol):
    """Copies of instances: in repositories, or in a simulated world."""

    async def made(self, instance_id: InstanceId) -> Mapping[str, datetime]:
        """When each copy of an instance was made, by id."""

    async def remove(self, instance_id: InstanceId, ids: Sequence[str]) -> None:
        """Delete copies of an instance by id, with the data that no other copy has."""

    async def erase(self, instance_id: InstanceId) -> None:
        """Delete everything of an instance for good; safe to call twice."""


class ResticContents:
    """Lists and deletes snapshots of repositories in an object store, with restic."""

    def __init__(self, keys: Keys, restic: Restic, store: Callable[[], Awaitable[ObjectStore]]) -> None:
        self._keys = keys
        self._restic = restic
        self._store = store

    async def made(self, instance_id: InstanceId) -> Mapping[str, datetime]:
        """When each copy of an instance was made, by id."""
        repository, password = await self._keys.for_platform(instance_id)
        return {snapshot.id: snapshot.at for snapshot in await self._restic.snapshots(repository, password)}

    async def remove(self, instance_id: InstanceId, ids: Sequence[str]) -> None:
        """Delete copies, with all that is in no other one."""
        repository, password = await self._keys.for_platform(instance_id)
        await self._restic.forget(repository, password, ids)

    async def erase(self, instance_id: InstanceId) -> None:
        """Delete everything of an instance for good; safe to call twice."""
        repository, _ = await self._keys.for_platform(instance_id)
        await call((await self._store()).erase, repository, within_s=_ERASE_S)
