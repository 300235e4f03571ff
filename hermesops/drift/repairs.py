"""How bad each kind of difference is, and the commands that repair it. A table; a test executes what it says. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from hermesops.drift.finding import Finding, Kind, Severity


@dataclass(frozen=True)
class Remedy:
    """How bad a kind of difference is, and what repairs it.

    Attributes:
        repair: Templates of commands; ``{user}``, ``{plan}``, ``{cell}``, ``{machine}``, ``{machine_id}``, ``{image}``
            are filled in.
        otherwise: The same, for what may be done instead.
    """

    severity: Severity
    repair: tuple[str, ...]
    otherwise: tuple[str, ...] = ()


_PROVISION = "provision {user} --plan {plan}"
_END = "instance terminate {user} --now"
_ANEW = (f"{_END} --without-backup", _PROVISION)
"""Start with an empty agent: what its machine held is lost, or is not the user's."""

_RESTORE = "backup restore {user} --onto-new-machine"

_REFRESH = "stack refresh {cell}"
_UP = "stack up {cell}"
_VERIFY = "instance verify {user}"

REMEDIES: Mapping[Kind, Remedy] = {
    Kind.MACHINE_MISSING: Remedy(Severity.CRITICAL, _ANEW),
    # No alternative: an agent that can be restored is not terminated.
    Kind.MACHINE_RESTORABLE: Remedy(Severity.CRITICAL, (_RESTORE,)),
    Kind.MACHINE_REPLACED: Remedy(Severity.CRITICAL, (_PROVISION, _REFRESH, _UP)),
    Kind.UNFINISHED: Remedy(Severity.WARNING, (_PROVISION,), (_END,)),
    Kind.LEAVING: Remedy(Severity.WARNING, (_END,)),
    # Only ever larger: a disk that has grown cannot shrink, so the ordered size is out of reach.
    Kind.RESIZED: Remedy(Severity.WARNING, ("fleet accept-size {user}", _REFRESH)),
    Kind.WRONG_IMAGE: Remedy(Severity.WARNING, ("backup create {user}", _RESTORE)),
    Kind.STOPPED: Remedy(Severity.CRITICAL, (_PROVISION,)),
    Kind.IN_ERROR: Remedy(Severity.CRITICAL, (_PROVISION,), _ANEW),
    Kind.NOT_READY: Remedy(Severity.UNKNOWN, (_PROVISION,)),
    Kind.ORPHAN: Remedy(Severity.WARNING, ("fleet adopt {machine}", _UP), ("fleet remove-orphan {machine}",)),
    Kind.ORPHAN_ENDED: Remedy(Severity.WARNING, ("fleet remove-orphan {machine}",)),
    Kind.DUPLICATE: Remedy(Severity.WARNING, ("fleet remove-orphan {machine} --id {machine_id}",)),
    Kind.SPARE_UNFINISHED: Remedy(Severity.WARNING, ("pool refill {cell}",)),
    Kind.SPARE_LEFT: Remedy(Severity.WARNING, ("lifecycle apply",)),
    # By its name, or where two bear that name by its id.
    Kind.NOT_IN_STACK: Remedy(Severity.WARNING, (_UP,), ("stack import {cell} --machine {machine}={machine_id}",)),
    Kind.STACK_DIFFERS: Remedy(Severity.WARNING, (_REFRESH, _UP)),
    Kind.STACK_BEHIND: Remedy(Severity.WARNING, (_UP,)),
    Kind.ONLY_IN_STACK: Remedy(Severity.WARNING, (_REFRESH,)),
    Kind.STACK_INTERRUPTED: Remedy(Severity.WARNING, (_UP,)),
    Kind.STACK_UNSEEN: Remedy(Severity.UNKNOWN, ("stack export {cell}",)),
    Kind.IMAGE_GONE: Remedy(Severity.WARNING, ("image build {image}",)),
    Kind.SNAPSHOT_LEFT: Remedy(Severity.WARNING, ("snapshot delete {user} {image}",)),
    Kind.REBOOTED: Remedy(Severity.INFO, (_VERIFY,)),
    Kind.SILENT: Remedy(Severity.UNKNOWN, ("instance show {user}",), (_PROVISION,)),
    Kind.FOREIGN_IDENTITY: Remedy(Severity.CRITICAL, _ANEW),
    Kind.NOT_PERSONALISED: Remedy(Severity.CRITICAL, (_PROVISION,)),
    Kind.PAYLOAD_DIFFERS: Remedy(Severity.WARNING, (_PROVISION,)),
    Kind.FILES_CHANGED: Remedy(Severity.WARNING, ("fleet converge {user}",)),
    Kind.ROLES_UNSEEN: Remedy(Severity.UNKNOWN, (_VERIFY,)),
    Kind.CHECK_FAILED: Remedy(Severity.WARNING, ("fleet converge {user}", "instance restart {user}")),
    Kind.CHECK_UNSEEN: Remedy(Severity.UNKNOWN, (_VERIFY,)),
}


@dataclass(frozen=True)
class RepairAdvisor:
    """Writes findings, with commands as they are typed in one environment.

    Attributes:
        program: ``hermesops``, with ``--env NAME`` where that is not the default.
    """

    program: str = "hermesops"

    def write(
        self, kind: Kind, seen: str, *, subject: str = "", cell: str = "", machine: str = "", **names: str
    ) -> Finding:
        """A finding of a kind with its remedy filled in.

        Args:
            subject: Whom or what it is about; by default the user, else the machine, else the cell.
            names: What else the kind's templates name: ``user``, ``plan``, ``machine_id``, ``image``.
        """
        remedy = REMEDIES[kind]
        known = {"cell": cell, "machine": machine, **names}
        return Finding(
            kind=kind,
            severity=remedy.severity,
            subject=subject or names.get("user", "") or machine or cell,
            cell=cell,
            machine=machine,
            seen=seen,
            repair=self._commands(remedy.repair, known),
            otherwise=self._commands(remedy.otherwise, known),
        )

    def _commands(self, templates: tuple[str, ...], known: Mapping[str, str]) -> tuple[str, ...]:
        return tuple(f"{self.program} {template.format(**known)}" for template in templates)
