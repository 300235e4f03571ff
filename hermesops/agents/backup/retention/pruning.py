"""Deletes backups: those that no retention rule keeps, and all of an instance some time after its termination."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta

from hermesops.agents.backup.retention.rules import Keep, going
from hermesops.agents.backup.store.repository_contents import RepositoryContents
from hermesops.errors import RefusedError
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.ids import InstanceId, instance_subject
from hermesops.model.recovery.backup import Backup
from hermesops.store.registry import Registry


class Pruning:
    """Deletes backups that no rule keeps."""

    def __init__(self, registry: Registry, contents: RepositoryContents, keep: Keep) -> None:
        self._registry = registry
        self._contents = contents
        self._keep = keep

    def due(self) -> list[Instance]:
        """Instances that have backups which no rule keeps, by their rows."""
        of: dict[InstanceId, dict[str, Backup]] = {}
        for backup in self._registry.backups.list():
            of.setdefault(backup.instance_id, {})[backup.id] = backup
        now = self._registry.now()
        return [instance for instance in self._registry.instances.list() if self._going(of.get(instance.id, {}), now)]

    def _going(self, rows: Mapping[str, Backup], now: datetime) -> list[str]:
        dates = {id_: backup.at for id_, backup in rows.items()}
        return going(dates, self._keep, now, spared=_spared(rows))

    async def prune(self, instance_id: InstanceId, *, why: str = "") -> list[str]:
        """Delete an instance's backups that no rule keeps; ids of those deleted.

        The content of the repository counts, not the registry's rows.

        Args:
            why: An operator's reason; empty for none.
        """
        rows = {backup.id: backup for backup in self._registry.backups.list(instance_id)}
        dates = await self._contents.made(instance_id)
        gone = going(dates, self._keep, self._registry.now(), spared=_spared(rows))
        if gone:
            await self._contents.remove(instance_id, gone)
        lost = [id_ for id_ in rows if id_ not in dates or id_ in gone]
        self._registry.backups.forget(instance_id, lost, why=f"retention: {why}" if why else "retention")
        return gone


class EndedBackups:
    """Deletes all backups of instances that were terminated long enough ago.

    Args:
        revoke: Revokes the credential of an instance's machine.
        remove_record: Deletes the instance's recovery record.
        hold_lease: Holds the lease of a subject, or refuses.
        keep_for: How long they are kept after the termination.
    """

    def __init__(
        self,
        registry: Registry,
        contents: RepositoryContents,
        revoke: Callable[[InstanceId], Awaitable[object]],
        remove_record: Callable[[InstanceId], Awaitable[object]],
        hold_lease: Callable[[str], AbstractAsyncContextManager[object]],
        keep_for: timedelta,
    ) -> None:
        self._registry = registry
        self._contents = contents
        self._revoke = revoke
        self._remove_record = remove_record
        self._hold_lease = hold_lease
        self._keep_for = keep_for

    def due(self) -> list[Instance]:
        """Choose terminated instances whose backups have reached the end of ``keep_for``."""
        before = self._registry.now() - self._keep_for
        ended = self._registry.backups.list_ended_repositories()
        return [self._registry.instances.get(id_) for id_, at in ended.items() if at <= before]

    async def erase(self, instance: Instance, *, why: str = "") -> None:
        """Delete all: contents, credential and recovery record, last the rows, so that a killed run is repeated.

        Args:
            why: An operator's reason; empty for none.

        Raises:
            RefusedError: The instance is not terminated.
            LeaseHeldError: An operation of the instance runs.
            UnavailableError: The object store does not answer.
        """
        async with self._hold_lease(instance_subject(instance.id)):
            if self._registry.instances.get(instance.id).status is not InstanceStatus.TERMINATED:
                raise RefusedError(f"{instance.title} is not terminated: its backups stay")
            await self._contents.erase(instance.id)
            await self._revoke(instance.id)
            await self._remove_record(instance.id)
            rule = f"terminated more than {self._keep_for.days} days ago"
            self._registry.backups.forget_repository(instance.id, why=f"{rule}: {why}" if why else rule)


def _spared(rows: Mapping[str, Backup]) -> list[str]:
    """Last backups of instances that are to be terminated, which somebody may want restored."""
    return [id_ for id_, backup in rows.items() if backup.why.startswith(("last", "before schedule_termination"))]
