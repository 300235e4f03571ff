"""The backup that was proved longest ago is the next one that is."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hermesops.agents.backup.daily.schedule import drill_is_due, drill_of
from hermesops.model.ids import InstanceId, OperationId
from hermesops.model.operation import Operation, OperationKind, OperationStatus

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
WEEK = timedelta(days=7)
DRILL = Operation(OperationId("op"), OperationKind.DRILL, "drill/a", None, {}, OperationStatus.DONE, "", "", NOON, NOON)


def test_one_is_due_a_week_after_the_last_one_or_after_the_first_backup() -> None:
    assert not drill_is_due([], None, WEEK, NOON)
    assert not drill_is_due([], NOON, WEEK, NOON + timedelta(days=6))
    assert drill_is_due([], NOON, WEEK, NOON + WEEK)
    assert not drill_is_due([DRILL], NOON - 9 * WEEK, WEEK, NOON + timedelta(days=6))
    assert drill_is_due([DRILL], NOON - 9 * WEEK, WEEK, NOON + WEEK)


def test_a_failed_one_counts_and_one_under_way_is_waited_for() -> None:
    assert not drill_is_due(
        [replace(DRILL, status=OperationStatus.FAILED)], NOON - WEEK, WEEK, NOON + timedelta(days=1)
    )
    running = replace(DRILL, status=OperationStatus.RUNNING)
    assert not drill_is_due([running], NOON - 9 * WEEK, WEEK, NOON + 9 * WEEK)


def test_who_was_never_proved_comes_first_then_the_oldest() -> None:
    ada, bob, eve = map(InstanceId, ("ada", "bob", "eve"))
    assert drill_of({ada: NOON, bob: None, eve: None}) == bob
    assert drill_of({ada: NOON, bob: NOON - WEEK, eve: NOON}) == bob
    assert drill_of({}) is None
