"""The history of operations, on both databases."""

import itertools
from typing import Any

import pytest
import sqlalchemy as sa

from hermesops.model.operation import LeaseLostError, OperationKind, OperationStatus
from hermesops.store.registry import Registry
from hermesops.store.registry.repositories import operations
from hermesops.store.registry.repositories.base import insert_if_absent
from hermesops.store.registry.schema import tables
from tests.support.real.stores.registries import TurnedClock


def test_every_step_is_kept_with_its_time_and_who_began_it(registry: Registry, clock: TurnedClock) -> None:
    operation = registry.operations.open(OperationKind.RESTART, "instance/a")
    registry.operations.record_step(operation.id, "left to the workers")
    lease = registry.leases.take("instance/a", "w:1:aa")
    for step in ("first", "second", "second"):
        clock.turn(1)
        registry.operations.record_step(operation.id, step, lease=lease)
    steps = registry.operations.steps(operation.id)
    assert [(operation_step.step, operation_step.holder, operation_step.problem) for operation_step in steps] == [
        ("left to the workers", "", ""),
        ("first", "w:1:aa", ""),
        ("second", "w:1:aa", ""),
        ("second", "w:1:aa", ""),
    ]
    assert [(later.at - former.at).total_seconds() for former, later in itertools.pairwise(steps)] == [
        1,
        1,
        1,
    ]
    assert registry.operations.steps(registry.operations.open(OperationKind.RESTART, "instance/b").id) == ()


def test_a_problem_is_kept_with_the_step_it_befell(registry: Registry, clock: TurnedClock) -> None:
    operation = registry.operations.open(OperationKind.RESTART, "instance/a")
    first = registry.leases.take("instance/a", "w:1:aa")
    registry.operations.record_step(operation.id, "restarting", lease=first)
    registry.operations.record_problem(operation.id, "no answer", lease=first)
    clock.turn(20)
    second = registry.leases.take("instance/a", "w:2:bb")
    registry.operations.record_problem(operation.id, "the vendor is away", lease=second)
    registry.operations.record_problem(operation.id, "and stays away", lease=second)
    assert [
        (operation_step.step, operation_step.holder, operation_step.problem)
        for operation_step in registry.operations.steps(operation.id)
    ] == [
        ("restarting", "w:1:aa", "no answer"),
        ("looking", "w:2:bb", "the vendor is away"),
        ("looking", "w:2:bb", "and stays away"),
    ]
    assert registry.operations.get(operation.id).status is OperationStatus.RUNNING
    with pytest.raises(LeaseLostError, match="instance/a is lost"):
        registry.operations.record_problem(operation.id, "late", lease=first)


def test_long_words_fit(registry: Registry) -> None:
    operation = registry.operations.open(OperationKind.RESTART, "instance/a")
    registry.operations.record_step(operation.id, "x" * 1000)
    assert registry.operations.get(operation.id).step == registry.operations.steps(operation.id)[0].step == "x" * 255


def test_the_unfinished_ones_come_oldest_first_and_of_known_kinds(registry: Registry, clock: TurnedClock) -> None:
    rows = []
    for name in "abcd":
        rows.append(registry.operations.open(OperationKind.RESTART, f"instance/{name}"))
        clock.turn(1)
    registry.operations.finish(rows[1].id, OperationStatus.DONE, "fine")
    with registry._database.writing() as connection:
        newer = tables.operations.update().where(tables.operations.c.id == rows[2].id).values(kind="of_next_year")
        connection.execute(newer)
        assert connection.scalar(sa.select(sa.func.count()).select_from(tables.operations)) == 4
    assert [row.id for row in registry.operations.unfinished()] == [rows[0].id, rows[3].id]
    assert [row.id for row in registry.operations.unfinished(limit=1)] == [rows[0].id]


def test_the_moment_is_that_of_the_rows(registry: Registry, clock: TurnedClock) -> None:
    assert registry.now() == clock()


def test_one_that_ends_while_it_is_asked_for_again_is_followed_by_a_new_one(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = registry.operations.open(OperationKind.STACK_UP, "stack/a")

    def ends_meanwhile(connection: sa.Connection, table: sa.Table, values: dict[str, Any]) -> bool:
        monkeypatch.undo()
        assert not insert_if_absent(connection, table, values), "it is in the way"
        connection.execute(tables.operations.update().values(status=OperationStatus.DONE))
        return False

    monkeypatch.setattr(operations, "insert_if_absent", ends_meanwhile)
    second = registry.operations.open(OperationKind.STACK_UP, "stack/a")
    assert second.id != first.id
    assert registry.operations.get(second.id).status is OperationStatus.PENDING
