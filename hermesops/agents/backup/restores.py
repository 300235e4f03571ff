"""Restores of an agent's state: onto the machine that it is on, or onto a new one."""

from dataclasses import dataclass

from hermesops.agents.backup.service import Backups
from hermesops.agents.instances.refusals import operation_unfinished
from hermesops.agents.instances.requests.changes import InstanceRequests
from hermesops.errors import Hint, Parameter, UsageError
from hermesops.model.fleet.instance import Instance
from hermesops.model.operation import Operation
from hermesops.model.recovery.backup import Backup


@dataclass(frozen=True)
class RestoreRequest:
    """Request to restore a backup of an instance.

    Attributes:
        user: The instance's, as the operator named it.
        is_named: Whether the operator named this backup; otherwise an unfinished restore of another one may continue.
        is_damaged: Whether the current state is damaged, so that no backup is made of it first.
        is_onto_new_machine: Whether the agent moves to a new machine, as when its own is gone.
    """

    user: str
    instance: Instance
    backup: Backup
    reason: str = ""
    is_named: bool = False
    is_damaged: bool = False
    is_onto_new_machine: bool = False

    def __post_init__(self) -> None:
        """Refuse options that exclude each other.

        Raises:
            UsageError: A damaged state is on the machine that the agent is on.
        """
        if self.is_onto_new_machine and self.is_damaged:
            raise UsageError(
                "a damaged state is on the current machine; this restore uses a new machine",
                hint=Hint("give either", Parameter("damaged"), "or", Parameter("onto_new_machine")),
            )


@dataclass(frozen=True)
class Restores:
    """Opens restores in place, or onto a new machine."""

    backups: Backups
    requests: InstanceRequests

    async def open(self, request: RestoreRequest) -> Operation:
        """Open a restore, or find the unfinished one.

        Raises:
            RefusedError: Another operation of the instance has not ended, a restore of another backup than the named
                one included, or the backup does not fit.
        """
        operation = await self._open(request)
        if request.is_named and str(operation.intent["snapshot"]) != request.backup.id:
            raise operation_unfinished(request.instance, operation)
        return operation

    async def _open(self, request: RestoreRequest) -> Operation:
        instance, backup, reason = request.instance, request.backup, request.reason
        if request.is_onto_new_machine:
            return await self.requests.restore(request.user, snapshot=backup.id, reason=reason or "restore")
        return await self.backups.open_restore(instance, backup, keeps=not request.is_damaged, reason=reason)
