"""Backups as the registry has them; the object store is not asked."""

from dataclasses import dataclass
from datetime import datetime

from hermesops.model.fleet.instance import Instance
from hermesops.model.operation import Operation
from hermesops.model.recovery.backup import RPO, Backup, Loss, newest_to_restore
from hermesops.store.registry import Registry


@dataclass(frozen=True)
class BackupAges:
    """How old the newest backup of every instance is.

    Attributes:
        rows: Each instance with the time of its newest backup; ``None`` for none.
        loss: Loss of the whole fleet.
        now: When these were read, by the registry's clock.
    """

    rows: tuple[tuple[Instance, datetime | None], ...]
    loss: Loss
    now: datetime


@dataclass(frozen=True)
class BackupRows:
    """Finds backups; nobody but the registry is asked."""

    registry: Registry

    def list(self, instance: Instance) -> tuple[Backup, ...]:
        """An instance's backups, as the registry orders them."""
        return self.registry.backups.list(instance.id)

    def get(self, instance: Instance, snapshot: str = "") -> Backup:
        """A backup by the beginning of its id; the newest without one.

        Raises:
            RefusedError: The instance has no backup.
            UsageError: It has none of that id, or more than one.
        """
        return self.registry.backups.get(instance.id, snapshot)

    def to_restore(self, instance: Instance, snapshot: str = "") -> Backup:
        """The backup that a restore takes: the named one, else the newest but for those that a restore made.

        Raises:
            RefusedError: The instance has no backup.
            UsageError: It has none of that id, or more than one.
        """
        newest = None if snapshot else newest_to_restore(self.list(instance))
        return newest or self.get(instance, snapshot)

    def of_drill(self, operation: Operation) -> tuple[Backup, Instance]:
        """Find the backup of a restore drill, and its instance."""
        snapshot = operation.intent["snapshot"]
        backup = next(backup for backup in self.registry.backups.list() if backup.id == snapshot)
        return backup, self.registry.instances.get(backup.instance_id)

    def ages(self) -> BackupAges:
        """How old the newest backup of every instance is that is not terminated."""
        registry = self.registry
        now, newest = registry.now(), registry.backups.newest()
        rows = tuple((instance, newest.get(instance.id)) for instance in registry.instances.list())
        return BackupAges(rows, registry.backups.loss(RPO), now)
