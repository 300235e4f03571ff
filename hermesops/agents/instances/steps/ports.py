"""Pools and backups as instances use them; both import instances, so ``hermesops.app`` passes them in."""

from collections.abc import Callable
from typing import Protocol

from hermesops.model.fleet.instance import Instance
from hermesops.model.fleet.user import User
from hermesops.model.ids import ImageId, InstanceId, MachineId
from hermesops.model.plan import Plan
from hermesops.model.recovery.backup import Backup


class Pool(Protocol):
    """Prepared machines that wait for users."""

    async def claim(
        self,
        user: Callable[[], User],
        plan: Plan,
        *,
        server_type: str,
        image_id: ImageId,
        region: str,
        subscription: str = "",
    ) -> Instance | None:
        """Assign a ready machine to the user and make the user's row; ``None`` when there is no such machine."""


class Backups(Protocol):
    """Backups of instances, made, proved and restored under a lease."""

    async def reach(self) -> object:
        """Make sure that where backups are kept answers."""

    def made(self, instance_id: InstanceId, why: str) -> Backup | None:
        """The backup that was made for that."""

    def newest(self, instance_id: InstanceId) -> Backup | None:
        """The newest backup; ``None`` for none."""

    def get(self, instance_id: InstanceId, snapshot: str) -> Backup:
        """Find one backup of an instance."""

    async def make(self, instance: Instance, machine_id: MachineId, *, why: str) -> Backup:
        """Back up the state on a machine, unless it was backed up for that before."""

    async def restore(self, instance: Instance, machine_id: MachineId, backup: Backup) -> object:
        """Restore a backup on a machine whose gateway is fenced, and compare the states."""

    async def prove(self, instance: Instance, backup: Backup) -> Backup:
        """Restore a backup elsewhere and compare the states; the backup's row gets the result."""

    async def revoke(self, instance_id: InstanceId) -> None:
        """End what an instance's machine could open its repository with; the backups stay."""
