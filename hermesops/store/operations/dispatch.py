"""Selects the unfinished operations that go into the queue, from their rows. Pure.

The queue may lose its tasks, and a worker may die during a task. Both look the same here: a row that has not ended,
without a held lease, and without a waiting or running task.
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
    """A task of the queue: one run of an operation.

    Attributes:
        worker: Id of the worker that runs it; empty while the task waits.
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
