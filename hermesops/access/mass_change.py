"""Many agents that shall end, or change their plan: a list that one operator signs and another one approves. Pure."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta

from pydantic import TypeAdapter

from hermesops.access.approval import Asked, digest_of
from hermesops.errors import UsageError
from hermesops.model.ids import InstanceId
from hermesops.model.operation import Operation, OperationKind, OperationStatus

NAMESPACE = "hermesops-mass-change"
"""Of the signature of who asks."""

KIND, VERSION = "hermesops-mass-change", 1
WINDOW = timedelta(hours=24)
"""In which agents are counted that end or change their plan."""

APPROVED = "approved"
"""In an operation's intent: the list that its instance is on, and the approval of it."""

COUNTED = "changes_plan"
"""In the intent of a relocation that changes the plan."""

HINT = "hermesops approval request USER… --save LIST; another operator: hermesops approval sign LIST --save APPROVAL"

_KINDS = frozenset({OperationKind.TERMINATE, OperationKind.FAREWELL, OperationKind.RESIZE})
_UNDONE = frozenset({OperationStatus.ABANDONED, OperationStatus.FAILED})


@dataclass(frozen=True)
class MassChange:
    """What one operator asks for.

    Attributes:
        instances: Whom it is about, sorted.
        reason: Why.
    """

    environment: str
    instances: tuple[InstanceId, ...]
    reason: str
    at: datetime

    def to_bytes(self) -> bytes:
        """What is signed; the same for the same list."""
        fields = {**asdict(self), "at": self.at.isoformat()}
        return json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()


def to_file(change: MassChange, signature: str) -> str:
    """The file that is handed round."""
    content = json.loads(change.to_bytes())
    return json.dumps({"kind": KIND, "version": VERSION, "change": content, "signature": signature}, indent=2) + "\n"


def is_file(text: str) -> bool:
    """Whether a text says of itself that it is such a file."""
    try:
        return bool(json.loads(text)["kind"] == KIND)
    except (KeyError, TypeError, ValueError, RecursionError):
        return False


def from_file(text: str) -> tuple[MassChange, str]:
    """A list and its signature, which nobody has checked yet.

    Raises:
        UsageError: It is no such file.
    """
    try:
        envelope = json.loads(text)
        if (envelope["kind"], envelope["version"]) != (KIND, VERSION):
            raise UsageError(f"not a list of agents of version {VERSION}", hint=HINT)
        return TypeAdapter(MassChange).validate_python(envelope["change"]), str(envelope["signature"])
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise UsageError("not a list of agents, or a damaged one", hint=HINT) from error


def asked_by(change: MassChange, signer: str) -> Asked:
    """What a list asks for."""
    what = f"end or change of plan of {len(change.instances)} agents"
    return Asked(what, change.environment, digest_of(change.to_bytes()), signer)


def is_counted(operation: Operation) -> bool:
    """Whether an operation ends an agent or changes its plan, without a list that says so."""
    if operation.status in _UNDONE or APPROVED in operation.intent:
        return False
    return operation.kind in _KINDS or bool(operation.intent.get(COUNTED))


def unapproved_before(operations: Iterable[Operation], instance_id: InstanceId, at: datetime) -> frozenset[InstanceId]:
    """Other agents that were to end or change their plan, unapproved, in the window before a moment."""
    return frozenset(
        one.instance_id
        for one in operations
        if one.instance_id not in {None, instance_id} and is_counted(one) and at - WINDOW < one.created_at <= at
        if one.instance_id is not None
    )
