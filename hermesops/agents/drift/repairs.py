"""Severity and repairing commands of each kind of difference: a table, whose commands a test executes. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from hermesops.agents.drift.finding import Finding, Kind, Severity
from hermesops.errors import Hint


class Repair(StrEnum):
    """Repairs of ``fleet repair``, for differences without a command of their own."""

    ADOPT = "adopt"
    REMOVE_ORPHAN = "remove-orphan"
    ACCEPT_SIZE = "accept-size"


@dataclass(frozen=True)
class Remedy:
    """Severity of a kind of difference, and the commands that repair it.

    Attributes:
        repair: Commands, in order; USER, PLAN, CELL, MACHINE, MACHINE_ID, IMAGE and OPERATION are filled in; none where
            a person has to decide outside hermesops.
        otherwise: Commands to use instead, in order.
    """

    severity: Severity
    repair: tuple[tuple[str, ...], ...]
    otherwise: tuple[tuple[str, ...], ...] = ()


_PROVISION = ("provision", "USER", "--plan", "PLAN")
_END = ("instance", "terminate", "USER", "--now")
_ANEW = ((*_END, "--without-backup"), _PROVISION)
"""Start with an empty agent: the data of its machine is lost, or is not the user's."""

_RESTORE = ("backup", "restore", "USER", "--onto-new-machine")

_REFRESH = ("stack", "refresh", "CELL")
_UP = ("stack", "up", "CELL")
_VERIFY = ("instance", "verify", "USER")

REMEDIES: Mapping[Kind, Remedy] = {
    Kind.MACHINE_MISSING: Remedy(Severity.CRITICAL, _ANEW),
    # No alternative: an agent that can be restored is not terminated.
    Kind.MACHINE_RESTORABLE: Remedy(Severity.CRITICAL, (_RESTORE,)),
    Kind.MACHINE_REPLACED: Remedy(Severity.CRITICAL, (_PROVISION, _REFRESH, _UP)),
    Kind.UNFINISHED: Remedy(Severity.WARNING, (_PROVISION,), (_END,)),
    Kind.LEAVING: Remedy(Severity.WARNING, (_END,)),
    # Only ever larger: a disk that has grown cannot shrink, so the ordered size is out of reach.
    Kind.RESIZED: Remedy(Severity.WARNING, (("fleet", "repair", "accept-size", "USER"), _REFRESH)),
    Kind.WRONG_IMAGE: Remedy(Severity.WARNING, (("backup", "create", "USER"), _RESTORE)),
    Kind.STOPPED: Remedy(Severity.CRITICAL, (_PROVISION,)),
    Kind.IN_ERROR: Remedy(Severity.CRITICAL, (_PROVISION,), _ANEW),
    Kind.NOT_READY: Remedy(Severity.UNKNOWN, (_PROVISION,)),
    Kind.ORPHAN: Remedy(
        Severity.WARNING,
        (("fleet", "repair", "adopt", "MACHINE"), _UP),
        (("fleet", "repair", "remove-orphan", "MACHINE"),),
    ),
    Kind.ORPHAN_ENDED: Remedy(Severity.WARNING, (("fleet", "repair", "remove-orphan", "MACHINE"),)),
    Kind.DUPLICATE: Remedy(Severity.WARNING, (("fleet", "repair", "remove-orphan", "MACHINE", "--id", "MACHINE_ID"),)),
    # hermesops deletes no machine whose name it did not give.
    Kind.UNKNOWN_MACHINE: Remedy(Severity.INFO, ()),
    Kind.OPERATION_OPEN: Remedy(
        Severity.WARNING,
        (("operation", "continue", "OPERATION"),),
        (("operation", "abandon", "OPERATION", "--reason", "WHY"),),
    ),
    Kind.WARM_UNFINISHED: Remedy(Severity.WARNING, (("job", "run", "pools", "CELL"),)),
    Kind.MACHINE_LEFT: Remedy(Severity.WARNING, (("job", "run", "lifecycle"),)),
    # By its name, or where two bear that name by its id.
    Kind.NOT_IN_STACK: Remedy(
        Severity.WARNING, (_UP,), (("stack", "import", "CELL", "--machine", "MACHINE=MACHINE_ID"),)
    ),
    Kind.STACK_DIFFERS: Remedy(Severity.WARNING, (_REFRESH, _UP)),
    Kind.STACK_BEHIND: Remedy(Severity.WARNING, (_UP,)),
    Kind.ONLY_IN_STACK: Remedy(Severity.WARNING, (_REFRESH,)),
    Kind.STACK_INTERRUPTED: Remedy(Severity.WARNING, (_UP,)),
    Kind.STACK_UNSEEN: Remedy(Severity.UNKNOWN, (("stack", "export", "CELL"),)),
    Kind.IMAGE_GONE: Remedy(Severity.WARNING, (("image", "build", "IMAGE"),)),
    Kind.SNAPSHOT_LEFT: Remedy(Severity.WARNING, (("snapshot", "delete", "USER", "IMAGE"),)),
    Kind.REBOOTED: Remedy(Severity.INFO, (_VERIFY,)),
    Kind.SILENT: Remedy(Severity.UNKNOWN, (("instance", "show", "USER"),), (_PROVISION,)),
    Kind.FOREIGN_IDENTITY: Remedy(Severity.CRITICAL, _ANEW),
    Kind.NOT_PERSONALISED: Remedy(Severity.CRITICAL, (_PROVISION,)),
    Kind.PAYLOAD_DIFFERS: Remedy(Severity.WARNING, (_PROVISION,)),
    Kind.FILES_CHANGED: Remedy(Severity.WARNING, (("fleet", "converge", "USER"),)),
    Kind.ROLES_UNSEEN: Remedy(Severity.UNKNOWN, (_VERIFY,)),
    Kind.CHECK_FAILED: Remedy(Severity.WARNING, (("fleet", "converge", "USER"), ("instance", "restart", "USER"))),
    Kind.CHECK_UNSEEN: Remedy(Severity.UNKNOWN, (_VERIFY,)),
}


def write_finding(
    kind: Kind, difference: str, *, subject: str = "", cell: str = "", machine: str = "", **names: str
) -> Finding:
    """A finding of a kind with its remedy filled in.

    Args:
        subject: User, machine, cell or image; by default the user, else the machine, else the cell.
        names: Other values of the kind's commands: ``user``, ``plan``, ``machine_id``, ``image``, ``operation``.
    """
    remedy = REMEDIES[kind]
    known = {name.upper(): value for name, value in {"cell": cell, "machine": machine, **names}.items()}
    return Finding(
        kind=kind,
        severity=remedy.severity,
        subject=subject or names.get("user", "") or machine or cell,
        cell=cell,
        machine=machine,
        difference=difference,
        repair=tuple(Hint(command).put(**known) for command in remedy.repair),
        otherwise=tuple(Hint(command).put(**known) for command in remedy.otherwise),
    )
