"""A last backup restored once and held against what was copied, before what it is of may be destroyed. Pure."""

from dataclasses import dataclass
from typing import Protocol

from hermesops.errors import BrokenInvariantError
from hermesops.instances.ports import Copies
from hermesops.model.backup import Backup
from hermesops.model.ids import InstanceId
from hermesops.model.instance import Instance
from hermesops.model.operation import Refused


@dataclass(frozen=True)
class ProveBackup:
    """Restore the last backup somewhere, once, and hold it against what was copied."""

    snapshot: str


def next_step(instance: Instance, backup: Backup) -> ProveBackup | Refused | None:
    """The next step towards a backup that is known to restore; ``None`` when it is."""
    if backup.checked:
        return Refused(_not_proved(instance, backup))
    return None if backup.is_proved else ProveBackup(backup.id)


def _not_proved(instance: Instance, backup: Backup) -> BrokenInvariantError:
    name = instance.title
    return BrokenInvariantError(
        f"the last backup of {name} does not prove: {backup.checked}",
        hint=f"nothing was deleted. Look again: hermesops backup check {name}. Keep the agent: hermesops instance "
        f"terminate {name} --undo. Keep machine and backups, asleep: hermesops instance suspend {name}. End it without "
        f"a proof: hermesops instance terminate {name} --now --without-backup; its backups stay for ended_backups_days",
    )


def describe(instance: Instance) -> str:
    """The step in a few words."""
    return f"restoring the last backup of {instance.title} once, to compare"


class Backups(Copies, Protocol):
    """Backups, made and proved."""

    def newest(self, instance_id: InstanceId) -> Backup | None:
        """The one made last."""

    async def prove(self, instance: Instance, backup: Backup) -> Backup:
        """Restore a backup somewhere and compare; what came of it is in its row."""

    async def revoke(self, instance_id: InstanceId) -> None:
        """End what an instance's machine could open its repository with; the backups stay."""
