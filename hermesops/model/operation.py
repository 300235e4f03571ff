"""Operations (one row each with intent, lease and outcome), leases, and runs of jobs."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from hermesops.errors import HermesError, RefusedError
from hermesops.model.ids import InstanceId, OperationId

LEASE_S = 15.0
"""Seconds after its last renewal from which on another may take a lease over."""


class OperationKind(StrEnum):
    """What a row intends."""

    PROVISION = "provision"
    TERMINATE = "terminate"
    RESTART = "restart"
    CONFIGURE = "configure"
    SUSPEND = "suspend"
    RESUME = "resume"
    RESIZE = "resize"
    RELOCATE = "relocate"
    SCHEDULE_TERMINATION = "schedule_termination"
    BACKUP = "backup"
    RESTORE = "restore"
    SNAPSHOT = "snapshot"
    DRILL = "drill"
    STACK_UP = "stack_up"
    POOL_FILL = "pool_fill"
    ROLLOUT = "rollout"


class OperationStatus(StrEnum):
    """Where a row stands. ``running`` says that somebody began, not that somebody is still at it: the lease does."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    ABANDONED = "abandoned"

    @property
    def has_ended(self) -> bool:
        """Whether nobody will bring it any further."""
        return self not in {OperationStatus.PENDING, OperationStatus.RUNNING}


@dataclass(frozen=True)
class Lease:
    """Who may work on something, until when, with the number that fences the ones before.

    Attributes:
        subject: What is leased, as ``instance/<id>`` or ``stack/<project>/<name>``.
        holder: Who holds it, as ``operations.holder`` writes it.
        epoch: Opened anew when the database is restored.
        counter: Rises with every taking; ``(epoch, counter)`` is the fencing token.
    """

    subject: str
    holder: str
    epoch: int
    counter: int
    expires_at: datetime

    @property
    def token(self) -> str:
        """The fencing token as people read it and machines are told it."""
        return f"{self.epoch}.{self.counter}"


class LeaseHeldError(RefusedError):
    """Somebody else holds the lease that was asked for.

    Args:
        message: What is held, and by whom.
        hint: The next command.
        holder: Who holds it; empty where that is not known.
    """

    def __init__(self, message: str, *, hint: str = "", holder: str = "") -> None:
        super().__init__(message, hint=hint)
        self.holder = holder


class LeaseLostError(RefusedError):
    """A lease that was held is somebody else's now; its old holder must stop working at once."""


@dataclass(frozen=True)
class OperationStep:
    """A row of ``operation_steps``: a step that was begun.

    Attributes:
        at: When it began.
        holder: Who began it, as in a lease; empty where no lease was held.
        problem: Why work stopped during it; empty when the next step or the outcome followed.
    """

    at: datetime
    step: str
    holder: str
    problem: str


@dataclass(frozen=True)
class Operation:
    """A row of ``operations``.

    Attributes:
        intent: What was asked for, in full: whoever continues it needs nothing else. No secrets.
        step: The last step that was recorded; a hint for people, never a reason to skip looking.
        outcome: One line once it has ended.
    """

    id: OperationId
    kind: OperationKind
    subject: str
    instance_id: InstanceId | None
    intent: Mapping[str, object]
    status: OperationStatus
    step: str
    outcome: str
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True)
class Done:
    """Decided when nothing is left to do.

    Attributes:
        outcome: One line for the operation's row.
    """

    outcome: str


@dataclass(frozen=True)
class Refused:
    """Decided when no step can bring the work to its end.

    Attributes:
        error: What the operator is told.
    """

    error: HermesError


@dataclass(frozen=True)
class JobRun:
    """The last time that a job was done.

    Attributes:
        began_at: When.
        ended_at: When it ended, well or not; ``None`` while somebody is at it, or when they died of it.
        done: What was done, in a line.
        problem: What was not, and why; empty when all went well.
    """

    began_at: datetime
    ended_at: datetime | None = None
    done: str = ""
    problem: str = ""


def job_subject(name: str) -> str:
    """What is leased while a job is done."""
    return f"job/{name}"
