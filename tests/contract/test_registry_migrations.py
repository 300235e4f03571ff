"""Tables of the first revision come to the newest with all that is in them, on both databases."""

from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from hermesops.errors import BrokenInvariantError
from hermesops.model.ids import CellName, InstanceId, MachineId
from hermesops.model.operation import OperationKind
from hermesops.model.token import PLATFORM
from hermesops.proxy_tokens.renewal import due_of
from hermesops.registry.audit.anchor import Anchor
from hermesops.registry.database import Database
from hermesops.registry.maintenance.backup import Copies
from hermesops.registry.open import migrate_registry
from hermesops.registry.schema import indexes, tables
from hermesops.registry.schema.schema_version import REVISIONS
from tests.support import old_registry
from tests.support.old_registry import AUDITED, INSTANCE, OPERATION, USER
from tests.support.registries import registry_at


@pytest.fixture
def old(registry_url: str) -> str:
    old_registry.make(registry_url)
    return registry_url


def test_the_first_revision_is_brought_to_the_newest(old: str) -> None:
    assert migrate_registry(old) == ("0001", REVISIONS[-1])
    database = Database(old)
    with database.reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), indexes.metadata) == []
    database.close()


def test_everything_that_was_there_is_there(old: str) -> None:
    registry = registry_at(old)
    instance_id = InstanceId(INSTANCE)
    instance = registry.find_instance("ada")
    assert (instance.id, instance.user_id, instance.machine_id) == (INSTANCE, USER, "m-1")
    assert len(registry.list_instances(terminated=True)) == 2
    assert registry.instance_settings(instance_id).personality == "kind"
    assert registry.instance_settings_before(instance_id) is None
    assert registry.api_server_key(instance_id) == "the key"
    assert registry.model_token_generation(instance_id) == 3
    assert [one.access_token for one in registry.list_connections(instance_id)] == ["access"]
    token = registry.proxy_token(MachineId("m-1"), "chat")
    assert token is not None
    assert token.token == "token"  # noqa: S105 - what the fixture wrote
    image = registry.latest_image("hermes-base")
    assert image is not None
    assert (image.id, image.manifest) == ("i-1", {"packages": {"a": "1"}})
    assert [machine.owner for machine in registry.cell_spec(CellName("cell1")).machines] == [INSTANCE]
    [operation] = registry.list_operations(unfinished=True)
    assert (operation.id, operation.kind, operation.intent) == (OPERATION, OperationKind.RESTART, {"before": "x"})
    lease = registry.take_lease(f"instance/{INSTANCE}", "somebody")
    assert (lease.epoch, lease.counter) == (2, 10)
    registry.close()


def test_a_token_that_others_could_read_is_taken_back_and_replaced_at_the_next_look(old: str) -> None:
    registry = registry_at(old)
    with registry._database.reading() as connection:
        assert connection.scalars(sa.select(tables.hermes_instances.c.proxy_token)).all() == [None, None]
    machine = MachineId("m-1")
    due = due_of([machine], [machine], registry.kept_tokens(), registry.now())
    assert due.renew == (machine,)
    kept = registry.proxy_token(machine, PLATFORM)
    assert kept is not None
    assert (kept.id, kept.token, kept.address) == ("t-2", "published", "")  # so that it can be revoked
    registry.close()


def test_old_entries_are_chained_and_new_ones_follow(old: str, tmp_path: Path) -> None:
    registry = registry_at(old, anchor=Anchor(tmp_path / "anchor"))
    assert registry.check_audit().findings == ()
    assert registry.check_audit().entries == AUDITED
    assert [entry.epoch for entry in reversed(registry.list_audit())] == [1, 1, 2, 2, 2, 2, 2]
    registry.append_audit("command_run", "x", why="later")
    report = registry.check_audit()
    assert (report.findings, report.entries, report.anchored_to) == ((), AUDITED + 1, AUDITED + 2)
    registry.close()


@pytest.mark.parametrize("statement", ["UPDATE audit SET why = 'another'", "DELETE FROM audit"])
def test_old_entries_are_still_refused_to_whoever_would_rewrite_them(old: str, statement: str) -> None:
    registry = registry_at(old)
    with (
        registry._database._engine.connect().execution_options(hermesops_writes=True) as connection,
        pytest.raises(sa.exc.DBAPIError, match="only ever appended to"),
    ):
        connection.execute(sa.text(statement))
    registry.close()


def test_a_copy_from_before_stays(tmp_path: Path) -> None:
    file = tmp_path / "registry.db"
    copies = Copies(file, keep=3)
    old_registry.make(f"sqlite:///{file}")
    registry = registry_at(f"sqlite:///{file}", copies=copies)
    registry.close()
    [copy] = copies.list()
    assert copy.reason == f"before-{REVISIONS[-1]}"
    database = Database(f"sqlite:///{copy.file}")
    with database.reading() as connection:
        assert connection.scalar(sa.text("SELECT version_num FROM alembic_version")) == "0001"
    database.close()


def test_a_migration_that_cannot_be_copied_first_is_not_done(tmp_path: Path) -> None:
    file = tmp_path / "registry.db"
    old_registry.make(f"sqlite:///{file}")
    (tmp_path / "registry-copies").write_text("a file where a folder should be")
    with pytest.raises(Exception, match="cannot be"):
        migrate_registry(f"sqlite:///{file}", copies=Copies(file, keep=3))
    database = Database(f"sqlite:///{file}")
    with database.reading() as connection:
        assert connection.scalar(sa.text("SELECT version_num FROM alembic_version")) == "0001"
    database.close()


def test_tables_without_a_revision_are_damaged(registry_url: str) -> None:
    migrate_registry(registry_url)
    database = Database(registry_url)
    with database.writing() as connection:
        connection.execute(sa.text("DELETE FROM alembic_version"))
    database.close()
    with pytest.raises(BrokenInvariantError, match="says no revision"):
        registry_at(registry_url)
