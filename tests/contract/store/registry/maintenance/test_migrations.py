"""Tables of this revision come to later ones with all that is in them, on both databases."""

import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from hermesops.errors import BrokenInvariantError, HermesError, RefusedError
from hermesops.model.access.operator_request import NewOperatorRequest
from hermesops.model.access.token import ProxyToken
from hermesops.model.fleet.instance import Instance, InstanceSettings, InstanceStatus
from hermesops.model.ids import ImageId, MachineId
from hermesops.model.operation import LEASE_S, LeaseHeldError, OperationKind
from hermesops.store.registry import Registry, open_registry
from hermesops.store.registry.database import Database
from hermesops.store.registry.maintenance.backup import Copies
from hermesops.store.registry.maintenance.restore import restore
from hermesops.store.registry.open import migrate_registry
from hermesops.store.registry.repositories.operator_requests import OperatorRequestRows
from hermesops.store.registry.schema import indexes
from hermesops.store.registry.schema.schema_version import REVISIONS, VERSION
from tests.support.real.stores import postgresql
from tests.support.real.stores.later_revisions import BROKEN, CONTRACT, EXPAND, newer_hermesops
from tests.support.real.stores.registries import KEYS, TurnedClock, placed, registry_at

AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
NOW = REVISIONS[-1]
FIRST = Path(__file__).parents[4] / "data" / "registries" / "0001.sql"
Rows = dict[str, list[dict[str, Any]]]
Newer = Callable[..., AbstractContextManager[tuple[str, ...]]]


@pytest.fixture
def instance(registry: Registry) -> Instance:
    """In a registry with rows in a dozen tables."""
    registry.images.record(ImageId("i-1"), name="hermes-base", digest="d" * 64, manifest={"packages": {"a": "1"}})
    instance = placed(registry)
    subject, machine = f"instance/{instance.id}", MachineId("m-1")
    registry.instances.set_machine(instance.id, machine, ip="10.1.2.3")
    registry.instances.set_status(instance.id, InstanceStatus.RUNNING, why='ümläut "quoted"')
    registry.connections.connect(instance.id, "google", access_token="access", scopes=("mail",), expires_at=AT)
    registry.proxy_tokens.keep(ProxyToken("t-1", machine, "chat", AT, "token"))
    settings = InstanceSettings(personality="kind")
    changing = registry.settings_changes.change(
        instance.id, settings, subject=subject, intent={"before": "x"}, why="asked"
    )
    registry.operations.record_step(changing.id, "waiting")
    registry.leases.take(subject, "one")
    return registry.instances.get(instance.id)


@pytest.fixture
def newer(tmp_path: Path) -> Newer:
    """Lets this process be a newer hermesops for a while."""
    return partial(newer_hermesops, tmp_path / "migrations")


def revision_of(url: str) -> str:
    database = Database(url)
    with database.reading() as connection:
        version: str = connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar_one()
    database.close()
    return version


def rows_of(registry: Registry) -> Rows:
    with registry._database.reading() as connection:
        return {
            table.name: [dict(row._mapping) for row in connection.execute(table.select().order_by(*table.primary_key))]
            for table in indexes.metadata.sorted_tables
        }


def differences_of(registry: Registry) -> list[Any]:
    """What the tables have that this code does not know, or the other way round."""
    with registry._database.reading() as connection:
        differences: list[Any] = compare_metadata(MigrationContext.configure(connection), indexes.metadata)
    return differences


def test_a_registry_of_the_first_revision_comes_to_the_tables_that_code_knows(tmp_path: Path) -> None:
    """New registries are made from the tables, older ones come there by scripts: a change of the tables needs one."""
    file = tmp_path / "registry.db"
    with closing(sqlite3.connect(file)) as first:
        first.executescript(FIRST.read_text())
    assert migrate_registry(f"sqlite:///{file}") == ("0001", NOW)
    migrated = registry_at(f"sqlite:///{file}")
    assert differences_of(migrated) == []
    migrated.close()


def test_requests_of_operators_of_before_are_about_their_instance(registry: Registry, registry_url: str) -> None:
    ada, rows = placed(registry), OperatorRequestRows(registry._database)
    new = NewOperatorRequest("otto", "instances", ada.id, "restart", {}, "a test", "token", is_preview=False)
    id_ = rows.add(new)
    assert id_
    before = rows.get(id_)
    with registry._database.writing() as connection:
        for name in ("about", "subject", "form"):
            connection.execute(sa.text(f"ALTER TABLE operator_requests DROP COLUMN {name}"))
        connection.execute(sa.text("DROP TABLE operator_links"))
        connection.execute(VERSION.update().values(version_num="0011"))
    assert migrate_registry(registry_url) == ("0011", NOW)
    assert (differences_of(registry), rows.get(id_)) == ([], before)


def test_tables_are_brought_to_the_newest_revision(registry: Registry, registry_url: str, newer: Newer) -> None:
    with newer(EXPAND, CONTRACT) as (_, newest):
        assert migrate_registry(registry_url) == (NOW, newest)
        assert migrate_registry(registry_url) == (newest, newest)
    [(change, _, table, column)] = differences_of(registry)
    assert (change, table, column.name) == ("remove_column", "users", "title")


def test_everything_that_was_there_is_there(
    registry: Registry, registry_url: str, instance: Instance, newer: Newer
) -> None:
    before = rows_of(registry)
    assert sum(map(bool, before.values())) == 12
    with newer(EXPAND, CONTRACT):
        migrated = registry_at(registry_url)
    assert rows_of(migrated) == before
    with migrated._database.reading() as connection:
        assert connection.execute(sa.text("SELECT title FROM users")).scalars().all() == ["ada"]
    assert migrated.instances.find("ada") == instance
    assert migrated.instance_secrets.settings(instance.id).personality == "kind"
    assert migrated.instance_secrets.api_server_key(instance.id) == registry.instance_secrets.api_server_key(
        instance.id
    )
    assert [service_connection.access_token for service_connection in migrated.connections.list(instance.id)] == [
        "access"
    ]
    assert migrated.audit.check().findings == ()
    [operation] = migrated.operations.list(unfinished=True)
    assert (operation.kind, operation.intent) == (OperationKind.CONFIGURE, {"before": "x"})
    migrated.close()


def test_a_lease_is_held_while_tables_change(
    registry: Registry, registry_url: str, clock: TurnedClock, newer: Newer
) -> None:
    lease = registry.leases.take("instance/a", "one")
    with newer(EXPAND, CONTRACT):
        migrated = registry_at(registry_url, clock=clock)
    assert registry.leases.renew([lease]) == frozenset()
    with pytest.raises(LeaseHeldError, match="being worked on by one"):
        migrated.leases.take("instance/a", "two")
    clock.turn(LEASE_S + 1)
    assert migrated.leases.take("instance/a", "two").counter == lease.counter + 1
    assert registry.leases.renew([lease]) == {lease.subject}
    migrated.close()


@pytest.mark.usefixtures("registry")
def test_many_that_migrate_at_once_do_it_once(empty_url: str, newer: Newer) -> None:
    with newer(EXPAND, CONTRACT) as (_, newest), ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: migrate_registry(empty_url), range(4)))
    assert {now for _, now in answers} == {newest}
    assert revision_of(empty_url) == newest


def test_whoever_has_a_registry_open_goes_on_and_opens_it_no_more(
    registry: Registry, registry_url: str, instance: Instance, newer: Newer
) -> None:
    with newer(EXPAND) as (newest,):
        migrate_registry(registry_url)
    assert registry.instances.find("ada") == instance
    assert registry.users.resolve("grace", create=True).alias == "grace"
    for attempt in (lambda: registry_at(registry_url), lambda: migrate_registry(registry_url)):
        with pytest.raises(RefusedError, match=f"an older hermesops: it knows revision {NOW}, .* is at {newest}"):
            attempt()


def test_a_migration_that_fails_changes_nothing(
    registry: Registry, registry_url: str, instance: Instance, newer: Newer
) -> None:
    before = rows_of(registry)
    with newer(EXPAND, CONTRACT, BROKEN), pytest.raises(HermesError, match="no_such_table"):
        migrate_registry(registry_url)
    assert (revision_of(registry_url), differences_of(registry)) == (NOW, [])
    assert rows_of(registry) == before
    assert registry.instances.find("ada") == instance


@pytest.mark.postgres
def test_an_older_registry_on_postgresql_is_migrated_only_when_asked(
    postgresql_server: postgresql.PostgreSql, newer: Newer
) -> None:
    url = postgresql_server.new_database()
    migrate_registry(url)
    with newer(EXPAND) as (newest,):
        with pytest.raises(RefusedError, match=f"is at revision {NOW}, this hermesops needs {newest}") as refused:
            open_registry(url, environment="local", actor="tester", sealer=lambda _new: KEYS)
        assert str(refused.value.hint) == "hermesops registry migrate"
        assert revision_of(url) == NOW


# Copies


@pytest.fixture
def copies(tmp_path: Path) -> Copies:
    """Those of a registry of this revision, which has one user."""
    copies = Copies(tmp_path / "registry.db", keep=3)
    registry = registry_at(f"sqlite:///{copies.file}")
    registry.users.resolve("ada", create=True)
    registry.close()
    return copies


def test_a_copy_from_before_stays(copies: Copies, newer: Newer) -> None:
    with newer(EXPAND, CONTRACT) as (_, newest):
        migrate_registry(f"sqlite:///{copies.file}", copies=copies)
    [copy] = copies.list()
    assert copy.reason == f"before-{newest}"
    assert revision_of(f"sqlite:///{copy.file}") == NOW


def test_a_migration_that_cannot_be_copied_first_is_not_done(copies: Copies, newer: Newer) -> None:
    copies.folder.write_text("a file where a folder should be")
    with newer(EXPAND), pytest.raises(HermesError, match="cannot be"):
        migrate_registry(f"sqlite:///{copies.file}", copies=copies)
    assert revision_of(f"sqlite:///{copies.file}") == NOW


def test_a_copy_from_before_is_restored_with_the_tables_of_now(copies: Copies, newer: Newer) -> None:
    url = f"sqlite:///{copies.file}"
    with newer(EXPAND, CONTRACT) as (_, newest):
        migrate_registry(url, copies=copies)
        [copy] = copies.list()
        copies.file.write_bytes(b"this was a database once " * 1000)
        restore(copies, copy.file, open_at=registry_at, anchor=None, over_healthy=False, why="drill")
        assert revision_of(url) == newest
        restored = registry_at(url)
    assert [user.alias for user in restored.users.list()] == ["ada"]
    restored.close()


@pytest.mark.parametrize(
    "statement", ["DELETE FROM alembic_version", "UPDATE alembic_version SET version_num = 'epoch'"]
)
def test_tables_without_a_revision_are_damaged(registry_url: str, statement: str) -> None:
    migrate_registry(registry_url)
    database = Database(registry_url)
    with database.writing() as connection:
        connection.execute(sa.text(statement))
    database.close()
    with pytest.raises(BrokenInvariantError, match="has no revision"):
        registry_at(registry_url)
