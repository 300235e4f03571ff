"""Kinds of operations on agents: from provisioning to termination."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from hermesops.errors import Hint
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.fleet.unassigned_machine import UnassignedMachine
from hermesops.model.ids import CellName, ImageId, MachineName
from hermesops.model.operation import OperationKind
from hermesops.model.plan import Plan
from hermesops.store.operations.intent import AbandonNote
from hermesops.store.operations.kinds.instance_intent import MAY_BE_STOPPED, BlockedBy, InstanceIntent

_PROVISIONING, _RUNNING, _SUSPENDED = InstanceStatus.PROVISIONING, InstanceStatus.RUNNING, InstanceStatus.SUSPENDED


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
class ProvisionIntent(InstanceIntent):
    """Make a user a running agent.

    Attributes:
        reason: Of the request that opened it; ``None`` for one that has none.
    """

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
    reason: str | None = None


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
    abandoned = MAY_BE_STOPPED

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
    abandoned = MAY_BE_STOPPED

    reason: str


@dataclass(frozen=True, kw_only=True)
class ResizeIntent(InstanceIntent):
    """Give an agent another plan on the machine it is on."""

    kind = OperationKind.RESIZE
    title = "resize"
    stops_gateway = True
    abandoned = MAY_BE_STOPPED

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
    abandoned = MAY_BE_STOPPED

    reason: str
    until: datetime
    approved: ApprovedList | None = None
