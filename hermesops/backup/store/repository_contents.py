"""What lies in repositories, as the platform itself sees it and takes it away; machines may do neither."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from hermesops.backup.repository import Repository
from hermesops.backup.store.calls import call
from hermesops.backup.store.repository_keys import Keys
from hermesops.backup.store.restic import Restic
from hermesops.model.ids import InstanceId

_ERASE_S = 1800.0
"""Seconds that erasing a repository has: a request an object, and some ten thousand of those."""


class RepositoryContents(Protocol):
    """Copies of instances."""

    async def made(self, instance_id: InstanceId) -> Mapping[str, datetime]:
        """When each copy of an instance was made, by id."""

    async def remove(self, instance_id: InstanceId, ids: Sequence[str]) -> None:
        """Take copies away."""

    async def erase(self, instance_id: InstanceId) -> None:
        """Take everything of an instance away, for good; safe to call twice."""


class Store(Protocol):
    """The object store."""

    def erase(self, repository: Repository) -> None:
        """Delete everything in a repository, former versions included."""


class ResticContents:
    """Repositories in an object store.

    Args:
        keys: Opens them.
        restic: The platform's.
        store: Finds the object store.
    """

    def __init__(self, keys: Keys, restic: Restic, store: Callable[[], Awaitable[Store]]) -> None:
        self._keys = keys
        self._restic = restic
        self._store = store

    async def made(self, instance_id: InstanceId) -> Mapping[str, datetime]:
        """When each copy of an instance was made, by id."""
        repository, password = await self._keys.observe(instance_id)
        return {one.id: one.at for one in await self._restic.snapshots(repository, password)}

    async def remove(self, instance_id: InstanceId, ids: Sequence[str]) -> None:
        """Take copies away, with all that is in no other one."""
        repository, password = await self._keys.observe(instance_id)
        await self._restic.forget(repository, password, ids)

    async def erase(self, instance_id: InstanceId) -> None:
        """Take everything of an instance away, for good; safe to call twice."""
        repository, _ = await self._keys.observe(instance_id)
        await call((await self._store()).erase, repository, within_s=_ERASE_S)
