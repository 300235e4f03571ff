"""Decides which unfinished operations go into the queue, from their rows. Pure.

The queue may lose everything, and a worker may die during a task. Both look the same here: a row that has not ended,
whose lease nobody holds, and for which no worker that is alive has a task.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from hermesops.model.ids import OperationId
from hermesops.model.operation import Operation, OperationStatus

FRESH = timedelta(seconds=5)
"""How long a row that nobody has begun is left to the command that wrote it."""


class TaskState(StrEnum):
    """Where a task of the queue stands."""

    WAITING = "waiting"
    RUNNING = "running"


@dataclass(frozen=True)
class Task:
    """One turn at an operation, as the queue has it.

    Attributes:
        worker: The one that runs it, or ran it last; empty when none has.
    """

    id: str
    operation_id: OperationId
    state: TaskState
    worker: str = ""


@dataclass(frozen=True)
class Enqueue:
    """Put a turn at an operation into the queue."""

    operation_id: OperationId


@dataclass(frozen=True)
class Revive:
    """Give the task of a dead worker to a live one."""

    task_id: str


def decide(
    rows: Iterable[Operation],
    tasks: Iterable[Task],
    *,
    leased: frozenset[str],
    alive: frozenset[str],
    now: datetime,
) -> list[Enqueue | Revive]:
    """The steps after which a worker has every operation that no process works on."""
    of_operation: dict[OperationId, list[Task]] = {}
    for task in tasks:
        of_operation.setdefault(task.operation_id, []).append(task)
    steps = (_step(row, of_operation, leased, alive, now) for row in rows)
    return [step for step in steps if step]


def _step(
    row: Operation,
    of_operation: Mapping[OperationId, list[Task]],
    leased: frozenset[str],
    alive: frozenset[str],
    now: datetime,
) -> Enqueue | Revive | None:
    tasks = of_operation.get(row.id, [])
    if any(task.state is TaskState.WAITING or task.worker in alive for task in tasks) or row.subject in leased:
        return None
    if tasks:
        return Revive(tasks[0].id)
    if row.status is OperationStatus.PENDING and now - row.created_at < FRESH:
        return None
    return Enqueue(row.id)
