"""The queue is filled from the rows: whatever it forgot, and whoever died."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hermesops.model.ids import OperationId
from hermesops.model.operation import Operation, OperationKind, OperationStatus
from hermesops.store.operations.dispatch import FRESH, Enqueue, Revive, Task, decide

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ROW = Operation(
    id=OperationId("op"),
    kind=OperationKind.PROVISION,
    subject="instance/1",
    instance_id=None,
    intent={},
    status=OperationStatus.RUNNING,
    step="left to the workers",
    outcome="",
    created_at=NOW - timedelta(days=1),
    updated_at=NOW - timedelta(days=1),
)
RUNNING = Task("op:1", ROW.id, "w1")
WAITING = Task("op:1", ROW.id)


def steps(
    *tasks: Task, row: Operation = ROW, leased: tuple[str, ...] = (), given_up: tuple[Task, ...] = ()
) -> list[Enqueue | Revive]:
    return decide([row], tasks, leased=frozenset(leased), given_up=frozenset(given_up), now=NOW)


def test_a_row_that_nobody_is_at_is_enqueued() -> None:
    assert steps() == [Enqueue(ROW.id)]


def test_a_row_that_somebody_is_at_is_left_alone() -> None:
    assert steps(leased=("instance/1",)) == []
    assert steps(RUNNING, leased=("instance/1",), given_up=(RUNNING,)) == []


def test_a_row_with_a_task_in_living_hands_is_left_alone() -> None:
    assert steps(WAITING) == []
    assert steps(RUNNING) == []


def test_a_dead_workers_task_is_given_to_another() -> None:
    assert steps(RUNNING, given_up=(RUNNING,)) == [Revive("op:1")]


def test_of_two_tasks_the_living_one_counts() -> None:
    assert steps(RUNNING, replace(RUNNING, id="op:2", worker="w2"), given_up=(RUNNING,)) == []
    assert steps(RUNNING, WAITING, given_up=(RUNNING,)) == []


def test_tasks_of_other_rows_say_nothing() -> None:
    assert steps(replace(RUNNING, operation_id=OperationId("other"))) == [Enqueue(ROW.id)]


def test_a_fresh_row_is_left_to_the_command_that_wrote_it() -> None:
    fresh = replace(ROW, status=OperationStatus.PENDING, created_at=NOW - FRESH + timedelta(seconds=1))
    assert steps(row=fresh) == []
    assert steps(row=replace(fresh, created_at=NOW - FRESH)) == [Enqueue(ROW.id)]
    assert steps(row=replace(fresh, status=OperationStatus.RUNNING)) == [Enqueue(ROW.id)]
