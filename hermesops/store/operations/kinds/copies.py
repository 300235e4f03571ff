"""Kinds of operations on copies of agents' states: backups, restores, snapshots and drills."""

from dataclasses import dataclass

from hermesops.errors import Hint
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import InstanceId
from hermesops.model.operation import Operation, OperationKind
from hermesops.model.recovery.backup import BEFORE_RESTORE
from hermesops.store.operations.intent import AbandonNote, Intent
from hermesops.store.operations.kinds.agents import RelocateIntent
from hermesops.store.operations.kinds.instance_intent import MAY_BE_STOPPED, BlockedBy, InstanceIntent

_PROVISIONING, _RUNNING, _SUSPENDED = InstanceStatus.PROVISIONING, InstanceStatus.RUNNING, InstanceStatus.SUSPENDED


@dataclass(frozen=True, kw_only=True)
class BackupIntent(InstanceIntent):
    """Back an agent up beside its running gateway.

    Attributes:
        why: What for, as ``daily``; with the operation's id no other backup has the same.
        reason: Of the request that opened it; ``None`` for one that has none.
    """

    kind = OperationKind.BACKUP
    title = "backup"
    blocked_by = BlockedBy.NOTHING
    statuses = frozenset({_RUNNING, _SUSPENDED})
    abandoned = AbandonNote("a backup of {user} was begun", Hint(("backup", "list", "USER"), "lists the finished ones"))

    why: str
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class RestoreIntent(InstanceIntent):
    """Replace an agent's state by a backup, on the machine that it is on.

    Attributes:
        keeps: Whether the present state is backed up first.
    """

    kind = OperationKind.RESTORE
    title = "restore"
    stops_gateway = True
    blocked_by = BlockedBy.STOPPED_GATEWAY
    statuses = frozenset({_PROVISIONING, _RUNNING})
    abandoned = MAY_BE_STOPPED

    reason: str
    snapshot: str
    keeps: bool


@dataclass(frozen=True, kw_only=True)
class SnapshotIntent(InstanceIntent):
    """Have the vendor save the machine's disk while the gateway is stopped."""

    kind = OperationKind.SNAPSHOT
    title = "snapshot"
    stops_gateway = True
    blocked_by = BlockedBy.STOPPED_GATEWAY
    abandoned = MAY_BE_STOPPED

    reason: str


@dataclass(frozen=True, kw_only=True)
class DrillIntent(Intent):
    """Restore an instance's backup on a separate machine, compare the states, and destroy the machine."""

    kind = OperationKind.DRILL
    title = "restore drill"
    abandoned = AbandonNote(
        "a machine with a copy of the state of {user} may be there, its gateway fenced, and is billed",
        Hint(("job", "run", "lifecycle"), "gives that machine back"),
    )

    user: str
    instance: InstanceId
    snapshot: str
    why: str


def backup_reason(operation: Operation) -> str:
    """The reason of the backup that an operation makes first; a continued operation has the same and makes no second.

    Before a restore it says so, as the backup replaces everything on the old machine.
    """
    if operation.kind is OperationKind.RELOCATE and RelocateIntent.of(operation).snapshot:
        return f"{BEFORE_RESTORE} {operation.id}"
    return f"before {operation.kind} {operation.id}"
