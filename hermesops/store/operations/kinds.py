"""The kinds of operations: parameters, conflicting kinds, and the note for an abandoned operation.

One class a kind. ``hermesops.app.handlers`` maps kinds to their reconcilers;
``hermesops.agents.instances.requests.eligibility`` judges by ``statuses`` and ``blocked_by`` whether an instance may
have one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import ClassVar

from hermesops.errors import BrokenInvariantError, Hint
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.fleet.unassigned_machine import UnassignedMachine
from hermesops.model.ids import CellName, ImageId, InstanceId, MachineName
from hermesops.model.operation import Operation, OperationKind
from hermesops.model.plan import Plan
from hermesops.model.recovery.backup import BEFORE_RESTORE
from hermesops.model.rollout.records import RolloutId
from hermesops.model.rollout.release import ReleaseId
from hermesops.store.operations.intent import AbandonNote, Intent

_PROVISIONING, _RUNNING, _SUSPENDED = InstanceStatus.PROVISIONING, InstanceStatus.RUNNING, InstanceStatus.SUSPENDED


class BlockedBy(StrEnum):
    """Unfinished operations that refuse a new one of the instance; one of the same kind is continued instead."""

    NOTHING = "nothing"
    STOPPED_GATEWAY = "stopped_gateway"
    """Those during which the gateway is stopped: it may be copied already, and must not be started."""

    ANYTHING = "anything"


class Keep(StrEnum):
    """Fate of a suspended agent's machine."""

    STOPPED = "stopped"
    REMOVED = "removed"


@dataclass(frozen=True)
class ApprovedList:
    """A list of agents that shall end or change their plan, and another operator's approval of it, as text."""

    change: str
    approval: str


@dataclass(frozen=True)
class PlanSize:
    """A plan, and its server type and data volume at the vendor."""

    plan: Plan
    server_type: str


@dataclass(frozen=True, kw_only=True)
class InstanceIntent(Intent):
    """Parameters of an operation on one instance.

    Attributes:
        stops_gateway: True if the operation stops the gateway.
        blocked_by: Kinds that must have no unfinished operation.
        continues: Kinds that this request continues; they do not block it.
        statuses: Statuses of instances that may have such an operation.
        repeatable: True if a repeated request changes nothing by itself, and may return the unfinished operation.
    """

    stops_gateway: ClassVar[bool] = False
    blocked_by: ClassVar[BlockedBy] = BlockedBy.ANYTHING
    continues: ClassVar[frozenset[OperationKind]] = frozenset()
    statuses: ClassVar[frozenset[InstanceStatus]] = frozenset({_RUNNING})
    repeatable: ClassVar[bool] = True

    user: str


def instance_of(operation: Operation) -> InstanceId:
    """The instance of an operation of one instance.

    Raises:
        BrokenInvariantError: Its row names none.
    """
    if operation.instance_id is None:
        raise BrokenInvariantError(f"operation {operation.id} of kind {operation.kind} names no instance")
    return operation.instance_id


_MAY_BE_STOPPED = AbandonNote(
    "the gateway of {user} may be stopped and fenced, its state untouched",
    Hint(("instance", "resume", "USER", "--reason", "WHY"), "resumes it"),
)


@dataclass(frozen=True, kw_only=True)
class ProvisionIntent(InstanceIntent):
    """Make a user a running agent."""

    kind = OperationKind.PROVISION
    title = "provision"
    blocked_by = BlockedBy.STOPPED_GATEWAY
    statuses = frozenset({_PROVISIONING, _RUNNING})
    abandoned = AbandonNote(
        "the instance of {user} stays provisioning; its machine may exist, and is billed then",
        Hint(
            ("provision", "USER", "--plan", "PLAN"),
            "goes on with it,",
            ("instance", "terminate", "USER"),
            "removes it",
        ),
    )

    plan: Plan
    machine_name: MachineName


@dataclass(frozen=True, kw_only=True)
class TerminateIntent(InstanceIntent):
    """End an agent now, whatever else is unfinished: nothing may hold the end of an agent up.

    Attributes:
        keeps_backup: Whether its last backup has to be made and proved first.
    """

    kind = OperationKind.TERMINATE
    title = "terminate"
    stops_gateway = True
    blocked_by = BlockedBy.NOTHING
    statuses = frozenset(InstanceStatus)
    abandoned = AbandonNote(
        "the machine of {user} stays given up: the next up of its cell destroys it; its gateway may be stopped already",
        Hint(("instance", "terminate", "USER"), "goes on with it"),
    )

    machine_name: MachineName
    reason: str
    keeps_backup: bool
    approved: ApprovedList | None = None


@dataclass(frozen=True, kw_only=True)
class RestartIntent(InstanceIntent):
    """Restart the gateway once.

    Attributes:
        before: systemd's id of the start that the gateway was in; empty when it was not running.
        reason: The operator's reason; empty for none.
    """

    kind = OperationKind.RESTART
    title = "restart"
    blocked_by = BlockedBy.STOPPED_GATEWAY
    statuses = frozenset({_PROVISIONING, _RUNNING})
    abandoned = AbandonNote(
        "the gateway of {user} runs, restarted or not", Hint(("instance", "show", "USER"), "shows which")
    )

    before: str
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class RebootIntent(InstanceIntent):
    """Have a machine that does not answer answer again: start it, reboot it, or switch it off and on."""

    kind = OperationKind.REBOOT
    title = "reboot"
    stops_gateway = True
    abandoned = AbandonNote(
        "the machine of {user} may be switched off or booting",
        Hint(("instance", "reboot", "USER", "--reason", "WHY"), "brings it up"),
    )

    reason: str


@dataclass(frozen=True, kw_only=True)
class ConfigureIntent(InstanceIntent):
    """Bring settings that are in the registry to the machine.

    Attributes:
        settings: Their outline; no secret and no word of the user's.
    """

    kind = OperationKind.CONFIGURE
    title = "change of settings"
    repeatable = False  # the request writes the new settings
    blocked_by = BlockedBy.STOPPED_GATEWAY
    statuses = frozenset({_PROVISIONING, _RUNNING})
    abandoned = AbandonNote(
        "the registry has the new settings of {user}, its machine may have the old ones",
        Hint(("instance", "settings", "USER", "--back", "--reason", "WHY"), "goes back to those before"),
    )

    reason: str
    changed: tuple[str, ...]
    settings: Mapping[str, object]


@dataclass(frozen=True, kw_only=True)
class SuspendIntent(InstanceIntent):
    """Stop an agent, back it up, and stop its machine or return it."""

    kind = OperationKind.SUSPEND
    title = "suspend"
    stops_gateway = True
    statuses = frozenset({_RUNNING, _SUSPENDED})
    abandoned = _MAY_BE_STOPPED

    reason: str
    keep: Keep


@dataclass(frozen=True, kw_only=True)
class ResumeIntent(InstanceIntent):
    """Start a suspended agent, or one with a gateway that was left stopped; a relocation starts it too."""

    kind = OperationKind.RESUME
    title = "resume"
    stops_gateway = True
    continues = frozenset({OperationKind.RELOCATE})
    statuses = frozenset({_PROVISIONING, _RUNNING, _SUSPENDED})
    abandoned = _MAY_BE_STOPPED

    reason: str


@dataclass(frozen=True, kw_only=True)
class ResizeIntent(InstanceIntent):
    """Give an agent another plan on the machine it is on."""

    kind = OperationKind.RESIZE
    title = "resize"
    stops_gateway = True
    abandoned = _MAY_BE_STOPPED

    reason: str
    before: PlanSize
    after: PlanSize
    approved: ApprovedList | None = None


@dataclass(frozen=True, kw_only=True)
class RelocateIntent(InstanceIntent):
    """Move an agent to another machine, with its state or with a backup instead.

    Attributes:
        origin: The instance's machine at the time of the request.
        cell: Cell of the new machine; a new cell is opened for ``only_plan``, or for every plan.
        plan: The user's plan after the move.
        image_id: Image of the new machine; ``None`` for the vendor's own image.
        snapshot: Backup to restore on the new machine; empty for the state of the old machine.
        keeps_previous: True if the old machine stays for a while.
        changes_plan: True if the move counts as a change of plan.
    """

    kind = OperationKind.RELOCATE
    title = "relocate"
    stops_gateway = True
    statuses = frozenset({_PROVISIONING, _RUNNING, _SUSPENDED})
    abandoned = AbandonNote(
        "the gateway of {user} may be stopped and fenced, and the ordered machine is billed",
        Hint(
            ("instance", "resume", "USER", "--reason", "WHY"),
            "resumes it,",
            ("job", "run", "lifecycle"),
            "gives that machine back",
        ),
    )

    reason: str
    origin: MachineName
    cell: CellName
    region: str
    plan: Plan
    server_type: str
    image_id: ImageId | None = None
    only_plan: Plan | None = None
    snapshot: str = ""
    keeps_previous: bool = False
    changes_plan: bool = False
    approved: ApprovedList | None = None

    def fits(self, row: UnassignedMachine) -> bool:
        """Return whether an ordered machine has the cell, size and image of this intent."""
        ordered = (row.cell, row.plan, row.server_type, row.image_id)
        return ordered == (self.cell, self.plan, self.server_type, self.image_id)

    def asks_the_same(self, other: "RelocateIntent", *fields: str) -> bool:
        """Return whether another intent has the same choices of the operator: region, plan, restore or not.

        Args:
            fields: Further choices of the operator, by name. hermesops chooses the rest.
        """
        chosen = ("region", "plan", *fields)
        return bool(self.snapshot) == bool(other.snapshot) and all(
            getattr(self, name) == getattr(other, name) for name in chosen
        )


@dataclass(frozen=True, kw_only=True)
class ScheduleTerminationIntent(InstanceIntent):
    """Stop an agent, prove its last backup, and end it at ``until`` unless that is cancelled."""

    kind = OperationKind.SCHEDULE_TERMINATION
    title = "schedule termination"
    stops_gateway = True
    statuses = frozenset({_RUNNING, _SUSPENDED})
    abandoned = _MAY_BE_STOPPED

    reason: str
    until: datetime
    approved: ApprovedList | None = None


@dataclass(frozen=True, kw_only=True)
class BackupIntent(InstanceIntent):
    """Back an agent up beside its running gateway.

    Attributes:
        why: What for, as ``daily``; with the operation's id no other backup has the same.
    """

    kind = OperationKind.BACKUP
    title = "backup"
    blocked_by = BlockedBy.NOTHING
    statuses = frozenset({_RUNNING, _SUSPENDED})
    abandoned = AbandonNote("a backup of {user} was begun", Hint(("backup", "list", "USER"), "lists the finished ones"))

    why: str


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
    abandoned = _MAY_BE_STOPPED

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
    abandoned = _MAY_BE_STOPPED

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


@dataclass(frozen=True, kw_only=True)
class StackUpIntent(Intent):
    """Bring a cell's machines to its rows.

    Attributes:
        only: The machines to change; empty means all.
        named: Machines that may be changed beyond the limits.
        share: The share of a cell's machines that may be destroyed, where one was named.
        saved: The file of a signed preview, which is to happen and nothing else; empty for none.
        approval: The file with which another operator approved that preview; empty for none.
    """

    kind = OperationKind.STACK_UP
    title = "stack up"
    abandoned = AbandonNote(
        "{cell} may be partly applied; a killed engine may have left its lock",
        Hint(("stack", "preview", "CELL"), "shows what is missing"),
    )

    cell: CellName
    only: frozenset[MachineName] = frozenset()
    named: frozenset[MachineName] = frozenset()
    share: float | None = None
    budget: Decimal | None = None
    saved: str = ""
    approval: str = ""


@dataclass(frozen=True, kw_only=True)
class PoolFillIntent(Intent):
    """Fill a cell's warm pool; without ``grow`` only delete machines that are marked for deletion."""

    kind = OperationKind.POOL_FILL
    title = "pool fill"
    abandoned = AbandonNote(
        "the warm pool of {cell} is unchanged; machines may be partly made, and are billed then",
        Hint(("job", "run", "pools", "CELL"), "goes on with it"),
    )

    cell: CellName
    grow: bool


@dataclass(frozen=True, kw_only=True)
class RolloutIntent(Intent):
    """Bring a release to many instances; the rollout's own row has the rest."""

    kind = OperationKind.ROLLOUT
    title = "rollout"
    abandoned = AbandonNote(
        "rollout {rollout} stops; updated instances stay on its release",
        Hint(("rollout", "status", "ROLLOUT")),
    )

    rollout: RolloutId
    release: ReleaseId


KINDS: Mapping[OperationKind, type[Intent]] = {
    intent.kind: intent
    for intent in (
        ProvisionIntent,
        TerminateIntent,
        RestartIntent,
        RebootIntent,
        ConfigureIntent,
        SuspendIntent,
        ResumeIntent,
        ResizeIntent,
        RelocateIntent,
        ScheduleTerminationIntent,
        BackupIntent,
        RestoreIntent,
        SnapshotIntent,
        DrillIntent,
        StackUpIntent,
        PoolFillIntent,
        RolloutIntent,
    )
}
"""What each kind is to do."""

STOPS_GATEWAY = frozenset(
    kind for kind, intent in KINDS.items() if issubclass(intent, InstanceIntent) and intent.stops_gateway
)
"""Kinds during which the gateway is stopped."""


def abandon_note(operation: Operation) -> AbandonNote:
    """Return the note for an operation that is not continued. Pure."""
    note = KINDS[operation.kind].abandoned
    # A row may say less than its kind declares: the note is for people, and must not fail.
    words = {"user": "USER", "cell": "CELL", "plan": "light", "rollout": "ID", **operation.intent}
    values = {name.upper(): str(value) for name, value in words.items()}
    return AbandonNote(note.what.format_map(words), note.next.put(**values))


def backup_reason(operation: Operation) -> str:
    """The reason of the backup that an operation makes first; a continued operation has the same and makes no second.

    Before a restore it says so, as the backup replaces everything on the old machine.
    """
    if operation.kind is OperationKind.RELOCATE and RelocateIntent.of(operation).snapshot:
        return f"{BEFORE_RESTORE} {operation.id}"
    return f"before {operation.kind} {operation.id}"
