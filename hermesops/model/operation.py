"""Operations (one row each with intent, lease and outcome), leases, and runs of jobs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from hermesops.errors import HermesError, Hint, RefusedError, UnavailableError
from hermesops.model.ids import InstanceId, OperationId

LEASE_S = 15.0
"""Seconds after its last renewal after which others may take a lease."""


class OperationKind(StrEnum):
    """Kinds of operations, as the registry stores them."""

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
    JOB_RUN = "job_run"
    ROLLOUT = "rollout"

    @property
    def needs_instance(self) -> bool:
        """Whether every operation of this kind is of an instance."""
        return self not in {
            OperationKind.DRILL,
            OperationKind.STACK_UP,
            OperationKind.POOL_FILL,
            OperationKind.JOB_RUN,
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
        """Whether the operation is over, whatever its result."""
        return self not in {OperationStatus.PENDING, OperationStatus.RUNNING}


@dataclass(frozen=True)
class Lease:
    """The right to work on a subject until a time, with a fencing token that outranks earlier holders.

    Attributes:
        subject: What is leased, as ``instance/<id>`` or ``stack/<project>/<name>``.
        holder: Who holds it, as ``operations.leases.holder`` writes it.
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
    """Another process holds the lease; ``holder`` is empty if unknown. Nothing was changed, and repeating helps."""

    exit_code = UnavailableError.exit_code

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
    """Subject of a job's lease, as ``job/backups``."""
    return f"job/{name}"


MONITOR_SUBJECT = "monitor"
"""What the monitor that acts leases."""

BACKUPS_SUBJECT = job_subject("backups")
"""What a worker leases that makes backups."""

LONGEST_PAUSE_S = 300.0
"""Seconds that a worker waits at most before it takes an operation again that failed."""

_UNTOUCHED = timedelta(minutes=1)
_RETRIED = timedelta(seconds=LONGEST_PAUSE_S + 30)
"""How long operations wait at most while workers run: new ones, and those that failed."""


@dataclass(frozen=True)
class LeasedWork:
    """Something to be worked on, and its lease.

    Attributes:
        created_at: Of an unfinished operation; ``None`` for what is no operation.
        subject: Of its lease.
        holder: Who works on it; empty for nobody, and for nobody ever where ``until`` is ``None``.
        until: When its lease runs out or was released.
    """

    created_at: datetime | None
    subject: str
    holder: str
    until: datetime | None

    def is_held(self, now: datetime) -> bool:
        """Whether a process works on it."""
        return bool(self.holder) and self.until is not None and self.until > now


@dataclass(frozen=True)
class BackgroundWork:
    """Whether workers and a monitor are there.

    Attributes:
        waiting: Unfinished operations that no process works on, for longer than while a worker runs.
        waiting_since: When the oldest of them was opened.
        is_attended: Whether a process works on another operation: then these only wait for their turn.
        monitor: The monitor that acts; empty for none.
        backups_at: When a process last worked on the job ``backups``; ``None`` for never.
        monitor_at: When a monitor last was there, which alone reads heartbeats; ``None`` for never.
    """

    waiting: int
    waiting_since: datetime | None
    is_attended: bool
    monitor: str
    backups_at: datetime | None
    monitor_at: datetime | None = None


def background_work(rows: Iterable[LeasedWork], now: datetime) -> BackgroundWork:
    """Summarise the leases of unfinished operations, of the monitor and of the job ``backups``. Pure."""
    rows = tuple(rows)
    waiting = [row.created_at for row in rows if row.created_at and _waits(row, row.created_at, now)]
    others = {row.subject: row for row in rows if row.created_at is None}
    monitor, backups = others.get(MONITOR_SUBJECT), others.get(BACKUPS_SUBJECT)
    return BackgroundWork(
        len(waiting),
        min(waiting, default=None),
        any(row.created_at and row.is_held(now) for row in rows),
        monitor.holder if monitor and monitor.is_held(now) else "",
        min(backups.until, now) if backups and backups.until else None,
        min(monitor.until, now) if monitor and monitor.until else None,
    )


def _waits(row: LeasedWork, created_at: datetime, now: datetime) -> bool:
    if row.until is None or row.until < created_at:  # of an earlier operation of the same subject
        return now - created_at > _UNTOUCHED
    return now - row.until > _RETRIED
