"""Which backup a restore takes, and how old backups are, by the registry's rows."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from hermesops.agents.backup.directory import BackupRows
from hermesops.errors import RefusedError, UsageError
from hermesops.model.fleet.instance import Instance
from hermesops.model.recovery.backup import BEFORE_RESTORE, Backup
from hermesops.model.recovery.state import State
from hermesops.store.registry import Registry
from tests.support.fakes.parts import part
from tests.support.real.stores.registries import TurnedClock, placed, registry_at

CLOCK = TurnedClock()


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    opened = registry_at(f"sqlite:///{tmp_path}/registry.db", clock=CLOCK)
    yield opened
    opened.close()


def recorded(registry: Registry, instance: Instance, id_: str, *, hours: int, why: str) -> Backup:
    backup = Backup(id_ * 64, instance.id, CLOCK() - timedelta(hours=hours), why, 10, 5, State({}))
    registry.backups.record(backup)
    return backup


def test_a_restore_takes_the_newest_backup_that_no_restore_made(registry: Registry) -> None:
    rows, ada, bob = BackupRows(registry), placed(registry), placed(registry, "bob")
    older = recorded(registry, ada, "a", hours=3, why="daily")
    newer = recorded(registry, ada, "b", hours=2, why="daily")
    replaced = recorded(registry, ada, "c", hours=1, why=f"{BEFORE_RESTORE} b")
    assert rows.to_restore(ada) == newer
    assert rows.to_restore(ada, "a") == older
    assert rows.get(ada) == replaced
    with pytest.raises(UsageError, match="no backup 'f'"):
        rows.to_restore(ada, "f")
    with pytest.raises(RefusedError, match="has no backup"):
        rows.to_restore(bob)


def test_the_backup_of_a_drill_is_found_with_its_owner(registry: Registry) -> None:
    ada, _ = placed(registry), placed(registry, "bob")
    backup = recorded(registry, ada, "a", hours=1, why="daily")
    assert BackupRows(registry).of_drill(part(intent={"snapshot": backup.id})) == (backup, ada)


def test_an_instance_without_a_backup_has_no_age(registry: Registry) -> None:
    ada, bob = placed(registry), placed(registry, "bob")
    backup = recorded(registry, ada, "a", hours=1, why="daily")
    ages = BackupRows(registry).ages()
    assert dict(ages.rows) == {ada: backup.at, bob: None}
    assert ages.now == CLOCK()
