"""Since when and why an agent is suspended, from its operations. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from hermesops.model.operation import Operation, OperationKind, OperationStatus

_SUSPENDING = frozenset({OperationKind.SUSPEND, OperationKind.SCHEDULE_TERMINATION})


@dataclass(frozen=True)
class Suspension:
    """The operation that suspended an agent.

    Attributes:
        reason: As the operator typed it; empty where none is recorded.
    """

    since: datetime
    reason: str

    def __str__(self) -> str:
        words = f"since {self.since:%Y-%m-%d %H:%M} UTC"
        return f"{words} ({self.reason})" if self.reason else words


def suspension_of(newest_first: Iterable[Operation]) -> Suspension | None:
    """The last operation that suspended the agent; ``None`` where none is recorded, as after a rebuild."""
    for operation in newest_first:
        if operation.kind in _SUSPENDING and operation.status is OperationStatus.DONE:
            return Suspension(operation.updated_at, str(operation.intent.get("reason", "")))
    return None
