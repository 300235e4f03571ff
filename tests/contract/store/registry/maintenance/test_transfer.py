"""A registry's way from SQLite to PostgreSQL: every row, once, and nobody who writes the file afterwards."""

from pathlib import Path

import pytest
import sqlalchemy as sa

from hermesops.errors import RefusedError
from hermesops.model.operation import OperationKind
from hermesops.store.registry import Registry
from hermesops.store.registry.database import Database
from hermesops.store.registry.maintenance import transfer
from hermesops.store.registry.open import migrate_registry
from hermesops.store.registry.schema.tables import audit, meta, metadata
from tests.support.real.stores import postgresql
from tests.support.real.stores.registries import placed, registry_at

pytestmark = pytest.mark.postgres


class Moving:
    """A registry in a file with a user in it, and an empty database."""

    def __init__(self, folder: Path, server: postgresql.PostgreSql) -> None:
        self.file_url = f"sqlite:///{folder / 'registry.db'}"
        self.target_url = server.new_database()
        migrate_registry(self.target_url)
        self.file = registry_at(self.file_url)
        self.instance = placed(self.file)

    def run(self) -> transfer.Transferred:
        source, target = Database(self.file_url), Database(self.target_url)
        try:
            return transfer.transfer(source, target)
        finally:
            source.close()
            target.close()

    def opened(self) -> Registry:
        return registry_at(self.target_url)


@pytest.fixture
def moving(tmp_path: Path, postgresql_server: postgresql.PostgreSql) -> Moving:
    return Moving(tmp_path, postgresql_server)


def _rows(url: str) -> dict[str, int]:
    database = Database(url)
    try:
        with database.reading() as connection:
            return {
                table.name: connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
                for table in metadata.sorted_tables
            }
    finally:
        database.close()


def test_every_row_is_there_and_the_audits_chain_goes_on(moving: Moving) -> None:
    before = _rows(moving.file_url)
    done = moving.run()
    assert done.rows == before
    assert done.total > 5
    moved = moving.opened()
    assert moved.instances.get(moving.instance.id) == moving.file.instances.get(moving.instance.id)
    assert not moved.audit.check().findings
    assert moved.consistency.contradictions() == moving.file.consistency.contradictions()
    assert moved.epochs.open("moved", above=done.epoch) == done.epoch + 1
    placed(moved, "bea")
    check = moved.audit.check()
    assert not check.findings
    assert check.head is not None
    moved.close()


def test_the_file_takes_no_writes_afterwards_until_it_is_taken_back(moving: Moving) -> None:
    moving.run()
    with pytest.raises(RefusedError, match="moved to"):
        placed(moving.file, "bea")
    source = Database(moving.file_url)
    assert transfer.moved_to(source)
    transfer.unmark_moved(source)
    source.close()
    placed(moving.file, "bea")


def test_an_open_operation_refuses_and_nothing_is_copied(moving: Moving) -> None:
    operation = moving.file.operations.open(OperationKind.STACK_UP, "cell/cell1", intent={})
    with pytest.raises(RefusedError, match=operation.id):
        moving.run()
    assert _rows(moving.target_url)["users"] == 0
    placed(moving.file, "bea")


def test_rows_of_two_registries_are_not_mixed(moving: Moving) -> None:
    other = moving.opened()
    placed(other, "bea")
    other.close()
    with pytest.raises(RefusedError, match="of its own"):
        moving.run()
    placed(moving.file, "carol")


def test_one_that_was_killed_before_its_end_begins_anew(moving: Moving) -> None:
    done = moving.run()
    source = Database(moving.file_url)
    transfer.unmark_moved(source)  # as if it had died before that was committed
    source.close()
    placed(moving.file, "bea")
    again = moving.run()
    assert again.rows["users"] == done.rows["users"] + 1
    target = Database(moving.target_url)
    with target.reading() as connection:
        kept = connection.execute(sa.select(sa.func.count()).select_from(audit)).scalar_one()
        assert connection.execute(sa.select(meta.c.value).where(meta.c.name == transfer.MOVED_FROM)).scalar_one()
    assert kept == again.rows["audit"]
    target.close()
