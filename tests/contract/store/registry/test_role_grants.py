"""What each service's role of PostgreSQL may read and write: the rights of its table in the code, and nothing else."""

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import sql

from hermesops.store.registry.open import migrate_registry
from hermesops.store.registry.schema import indexes
from hermesops.store.registry.schema.role_grants import API, RIGHTS, privileges
from hermesops.store.registry.schema.tables import SEALED
from hermesops.store.registry.schema.user_tables import MESSAGES
from tests.support.real.stores.postgresql import PostgreSql, as_role, make_role

pytestmark = pytest.mark.postgres

COLUMNS = (
    "SELECT table_schema, table_name, column_name FROM information_schema.columns"
    " WHERE table_schema NOT IN ('pg_catalog', 'information_schema')"
)
SCHEMA = "public"


@pytest.fixture(params=sorted(RIGHTS))
def role(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(postgresql_server: PostgreSql) -> str:
    """A registry whose server has every role."""
    url = postgresql_server.new_database()
    for role in RIGHTS:
        make_role(url, role)
    migrate_registry(url)
    return url


@pytest.fixture
def service(url: str, role: str) -> Iterator["psycopg.Connection[tuple[object, ...]]"]:
    """A connection of the role."""
    with psycopg.connect(as_role(url, role), autocommit=True) as connection:
        yield connection


def columns_of(url: str) -> list[tuple[str, str, str]]:
    """Every column of every table, as the owner sees them."""
    with psycopg.connect(url) as owner:
        rows = [(str(schema), str(table), str(column)) for schema, table, column in owner.execute(COLUMNS)]
    assert len(rows) > 200
    return rows


def is_allowed(service: "psycopg.Connection[tuple[object, ...]]", statement: str, *names: str) -> bool:
    """Whether the role may run a statement, which changes no row."""
    try:
        service.execute(sql.SQL(statement).format(*map(sql.Identifier, names)))
    except psycopg.errors.InsufficientPrivilege:
        return False
    except (psycopg.errors.NotNullViolation, psycopg.errors.ForeignKeyViolation):  # came further than the right
        return True
    return True


def test_a_role_reads_the_columns_of_its_rights_and_no_other(
    url: str, role: str, service: "psycopg.Connection[tuple[object, ...]]"
) -> None:
    readable = {
        (schema, table, column)
        for schema, table, column in columns_of(url)
        if is_allowed(service, "SELECT {} FROM {}.{} LIMIT 0", column, schema, table)
    }
    assert readable == {(SCHEMA, each.name, each.column) for each in privileges(role) if each.verb == "SELECT"}


def test_a_role_changes_the_columns_of_its_rights_and_no_other(
    url: str, role: str, service: "psycopg.Connection[tuple[object, ...]]"
) -> None:
    changed = {
        (table, column)
        for schema, table, column in columns_of(url)
        if is_allowed(service, "UPDATE {}.{} SET {} = NULL WHERE false", schema, table, column)
    }
    assert changed == {(each.name, each.column) for each in privileges(role) if each.verb == "UPDATE"}


def test_a_role_adds_the_columns_of_its_rights_and_no_other(
    url: str, role: str, service: "psycopg.Connection[tuple[object, ...]]"
) -> None:
    added = {
        (table, column)
        for schema, table, column in columns_of(url)
        if is_allowed(service, "INSERT INTO {}.{} ({}) SELECT NULL WHERE false", schema, table, column)
    }
    assert added == {(each.name, each.column) for each in privileges(role) if each.verb == "INSERT"}


def test_a_role_deletes_from_tables_of_its_rights_and_changes_no_table(
    url: str, role: str, service: "psycopg.Connection[tuple[object, ...]]"
) -> None:
    tables = {(schema, table) for schema, table, _ in columns_of(url)}
    deleted = {table for schema, table in tables if is_allowed(service, "DELETE FROM {}.{} WHERE false", schema, table)}
    assert deleted == {each.name for each in privileges(role) if each.verb == "DELETE"}
    assert not [table for schema, table in tables if is_allowed(service, "TRUNCATE {}.{}", schema, table)]
    assert not [
        table for schema, table in tables if is_allowed(service, "ALTER TABLE {}.{} RENAME TO x", schema, table)
    ]
    assert not is_allowed(service, "CREATE TABLE {} (id int)", "mine")
    assert not is_allowed(service, "CREATE ROLE {}", "another")


def test_no_role_reads_a_column_that_the_registrys_key_seals() -> None:
    sealed = {
        (table.name, column.name)
        for table in indexes.metadata.sorted_tables
        for column in table.columns
        if column.info.get(SEALED) not in {None, MESSAGES}
    }
    assert ("instance_details", "settings") in sealed
    for role in RIGHTS:
        assert not sealed & {(each.name, each.column) for each in privileges(role)}, role
    machines = {"vm_id", "vm_ip", "machine_name", "machine_id", "server_type", "image_id"}
    assert not machines & {each.column for each in privileges(API)}


def test_a_right_that_the_table_does_not_have_any_more_is_taken_away_and_one_that_is_lacking_given(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute("GRANT SELECT, DELETE ON users TO hermes_api")
        owner.execute("GRANT UPDATE (plan) ON hermes_instances TO hermes_api")
        owner.execute("GRANT USAGE ON SEQUENCE audit_id_seq TO hermes_api")
        owner.execute("REVOKE SELECT ON turns FROM hermes_api")
        migrate_registry(url)
        held = owner.execute(
            "SELECT has_table_privilege('hermes_api', 'users', 'DELETE'),"
            " has_column_privilege('hermes_api', 'users', 'created_at', 'SELECT'),"
            " has_column_privilege('hermes_api', 'hermes_instances', 'plan', 'UPDATE'),"
            " has_sequence_privilege('hermes_api', 'audit_id_seq', 'USAGE'),"
            " has_column_privilege('hermes_api', 'users', 'alias', 'SELECT'),"
            " has_column_privilege('hermes_api', 'turns', 'message', 'SELECT')"
        ).fetchone()
    assert held == (False, False, False, False, True, True)


def test_a_server_without_the_roles_is_migrated_all_the_same(postgresql_server: PostgreSql) -> None:
    url = postgresql_server.new_database()
    with psycopg.connect(url, autocommit=True) as owner:
        for role in RIGHTS:
            if owner.execute("SELECT FROM pg_roles WHERE rolname = %s", [role]).fetchone():
                owner.execute(sql.SQL("ALTER ROLE {} RENAME TO {}").format(*map(sql.Identifier, (role, f"{role}_x"))))
    try:
        migrate_registry(url)
    finally:
        with psycopg.connect(url, autocommit=True) as owner:
            for role in RIGHTS:
                if owner.execute("SELECT FROM pg_roles WHERE rolname = %s", [f"{role}_x"]).fetchone():
                    owner.execute(
                        sql.SQL("ALTER ROLE {} RENAME TO {}").format(*map(sql.Identifier, (f"{role}_x", role)))
                    )
