"""Which backup a restore takes when nobody names one."""

from dataclasses import replace
from datetime import UTC, datetime

from hermesops.model.ids import InstanceId
from hermesops.model.recovery.backup import Backup, newest_to_restore
from hermesops.model.recovery.state import State

MADE = Backup("made", InstanceId("ada"), datetime(2026, 1, 1, tzinfo=UTC), "manual", 1, 1, State({}))
REPLACED = replace(MADE, id="replaced", why="before restore 5b09ed3f")
AT_REST = replace(MADE, id="at rest", why="before suspend 5b09ed3f")


def test_what_a_restore_replaced_is_not_restored_by_the_same_command() -> None:
    assert newest_to_restore((REPLACED, REPLACED, MADE, AT_REST)) == MADE
    assert newest_to_restore((AT_REST, REPLACED, MADE)) == AT_REST


def test_without_another_there_is_none() -> None:
    assert newest_to_restore((REPLACED,)) is None
