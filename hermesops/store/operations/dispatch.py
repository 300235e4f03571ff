"""Decides which unfinished operations go into the queue, from their rows. Pure.

The queue may lose everything, and a worker may die during a task. Both look the same here: a row that has not ended,
whose lease nobody holds, and for which no task is waiting or under way.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from hermesops.model.ids import OperationId
from hermesops.model.operation import Operation, OperationStatus

FRESH = timedelta(seconds=5)
"""How long a new row is left to the command that wrote it."""


@dataclass(frozen=True)
class Task:
    """One turn at an operation, as the queue has it.

    Attributes:
        worker: The one that runs it; empty while it waits for one.
    """

    id: str
    operation_id: OperationId
    worker: str = ""


@dataclass(frozen=True)
class Enqueue:
    """Put a turn at an operation into the queue."""

    operation_id: OperationId


@dataclass(frozen=True)
class Revive:
    """Put the task of a dead worker back into the queue."""

    task_id: str


def decide(
    rows: Iterable[Operation],
    tasks: Iterable[Task],
    *,
    leased: Collection[str],
    given_up: Collection[Task],
    now: datetime,
) -> list[Enqueue | Revive]:
    """The steps after which a worker has every operation that no process works on.

    Args:
        leased: Subjects that somebody works on.
        given_up: Tasks that their workers will not end.
    """
    of_operation: dict[OperationId, list[Task]] = {}
    for task in tasks:
        of_operation.setdefault(task.operation_id, []).append(task)
    steps = (_step(row, of_operation.get(row.id, []), given_up, now) for row in rows if row.subject not in leased)
    return [step for step in steps if step]


def _step(row: Operation, tasks: list[Task], given_up: Collection[Task], now: datetime) -> Enqueue | Revive | None:
    if any(task not in given_up for task in tasks):
        return None
    if tasks:
        return Revive(tasks[0].id)
    if row.status is OperationStatus.PENDING and now - row.created_at < FRESH:
        return None
    return Enqueue(row.id)
