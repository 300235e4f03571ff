"""Terminating many agents, or changing their plan: a list that one operator signs and another one approves. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from hermesops.access.identity.approval import Asked, digest_of
from hermesops.base.narration import counted
from hermesops.errors import Hint, RefusedError
from hermesops.model.access.signed_file import SignedContent, SignedFile
from hermesops.model.ids import InstanceId
from hermesops.model.operation import Operation, OperationKind, OperationStatus

WINDOW = timedelta(hours=24)
"""The time in which terminations and changes of plan are counted."""

APPROVED = "approved"
"""Key in an operation's intent: the list that its instance is on, and the approval of that."""

COUNTED = "changes_plan"
"""Key in the intent of a relocation that changes the plan."""

HINT = Hint(
    ("approval", "request", "USER", "--reason", "WHY", "--save", "LIST"),
    "; another operator:",
    ("approval", "sign", "LIST", "--save", "APPROVAL"),
)

KINDS = (
    OperationKind.TERMINATE,
    OperationKind.SCHEDULE_TERMINATION,
    OperationKind.RESIZE,
    OperationKind.RELOCATE,
)
"""Operations that end an agent, change its plan, or may."""

_KINDS = frozenset({OperationKind.TERMINATE, OperationKind.SCHEDULE_TERMINATION, OperationKind.RESIZE})
_UNDONE = frozenset({OperationStatus.ABANDONED, OperationStatus.FAILED})


@dataclass(frozen=True)
class MassChange(SignedContent):
    """The list that one operator signs.

    Attributes:
        instances: Sorted.
        reason: For the audit log.
    """

    environment: str
    instances: tuple[InstanceId, ...]
    reason: str
    at: datetime


FILE = SignedFile("hermesops-mass-change", MassChange, field="change", title="a list of agents", hint=HINT)


def asked_by(change: MassChange, signer: str) -> Asked:
    """A list as a request for approval."""
    what = f"end or change of plan of {counted(len(change.instances), 'agent')}"
    return Asked(what, change.environment, digest_of(change.to_bytes()), signer)


def is_counted(operation: Operation) -> bool:
    """Return whether an operation terminates an agent or changes its plan, without an approved list."""
    if operation.status in _UNDONE or APPROVED in operation.intent:
        return False
    return operation.kind in _KINDS or bool(operation.intent.get(COUNTED))


def refuse_many(
    operations: Iterable[Operation], instance_id: InstanceId, at: datetime, *, limit: int, environment: str
) -> None:
    """Let an agent end or change its plan while few others do.

    ``operations`` are all that end agents or change their plans, ``at`` when this one was asked for; ``limit`` agents
    may in 24 hours without an approval.

    Raises:
        RefusedError: So many others do already.
    """
    others = unapproved_before(operations, instance_id, at)
    if len(others) >= limit:
        raise RefusedError(
            f"{len(others)} other agents end or change their plan within 24 hours: in {environment} more than "
            f"{limit} need another operator's approval",
            hint=HINT,
        )


def unapproved_before(operations: Iterable[Operation], instance_id: InstanceId, at: datetime) -> frozenset[InstanceId]:
    """Other agents with an unapproved termination or change of plan in the window before a moment."""
    return frozenset(
        operation.instance_id
        for operation in operations
        if operation.instance_id not in {None, instance_id}
        and is_counted(operation)
        and at - WINDOW < operation.created_at <= at
        if operation.instance_id is not None
    )
