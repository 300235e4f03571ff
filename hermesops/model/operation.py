"""Operations (one row each with intent, lease and outcome), leases, and runs of jobs."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from hermesops.errors import HermesError, Hint, RefusedError
from hermesops.model.ids import InstanceId, OperationId

LEASE_S = 15.0
"""Seconds after its last renewal after which others may take a lease."""


class OperationKind(StrEnum):
    """What a row intends."""

    PROVISION = "provision"
    TERMINATE = "terminate"
    RESTART = "restart"
    REBOOT = "reboot"
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

    @property
    def needs_instance(self) -> bool:
        """Whether every operation of this kind is of an instance."""
        return self not in {
            OperationKind.DRILL,
            OperationKind.STACK_UP,
            OperationKind.POOL_FILL,
            OperationKind.ROLLOUT,
        }


class OperationStatus(StrEnum):
    """The status of a row. ``running`` means that work began; the lease shows whether it continues."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    ABANDONED = "abandoned"

    @property
    def has_ended(self) -> bool:
        """Whether the operation is over."""
        return self not in {OperationStatus.PENDING, OperationStatus.RUNNING}


@dataclass(frozen=True)
class Lease:
    """The right to work on a subject until a time, with a fencing token that outranks earlier holders.

    Attributes:
        subject: What is leased, as ``instance/<id>`` or ``stack/<project>/<name>``.
        holder: Who holds it, as ``operations.holder`` writes it.
        epoch: Raised when the database is restored.
        counter: Rises each time the lease is acquired; ``(epoch, counter)`` is the fencing token.
    """

    subject: str
    holder: str
    epoch: int
    counter: int
    expires_at: datetime

    @property
    def token(self) -> str:
        """The fencing token as text, for people and machines."""
        return f"{self.epoch}.{self.counter}"


class LeaseHeldError(RefusedError):
    """Another process holds the lease; ``holder`` is empty if unknown."""

    def __init__(self, message: str, *, hint: Hint | str = "", holder: str = "") -> None:
        super().__init__(message, hint=hint)
        self.holder = holder


class LeaseLostError(RefusedError):
    """Another process has taken the lease; its old holder must stop at once."""


@dataclass(frozen=True)
class OperationStep:
    """A row of ``operation_steps``: a step that was begun.

    Attributes:
        holder: Who began it, as in a lease; empty where no lease was held.
        problem: Why work stopped during it; empty if the next step or the outcome followed.
    """

    at: datetime
    step: str
    holder: str
    problem: str


@dataclass(frozen=True)
class Operation:
    """A row of ``operations``.

    Attributes:
        intent: The whole request, so that any process can continue the operation. No secrets.
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
    """Decision: nothing is left to do."""

    outcome: str


@dataclass(frozen=True)
class Refused:
    """Decision: no step can finish the work."""

    error: HermesError


@dataclass(frozen=True)
class JobRun:
    """The last run of a job.

    Attributes:
        ended_at: ``None`` while it runs, or when its process died.
        done: What was done, in a line.
        problem: What was not done, and why; empty when all went well.
    """

    began_at: datetime
    ended_at: datetime | None = None
    done: str = ""
    problem: str = ""


def job_subject(name: str) -> str:
    """A job's name in leases."""
    return f"job/{name}"
