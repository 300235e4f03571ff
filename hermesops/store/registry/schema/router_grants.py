"""Rights of the model router on the tables: its PostgreSQL role has these and no others."""

from dataclasses import dataclass

import sqlalchemy as sa

from hermesops.store.registry.database import Database
from hermesops.store.registry.schema import schema_version

ROLE = "router"


@dataclass(frozen=True)
class _Right:
    """One right on a table of the schema ``public``.

    Attributes:
        columns: Columns of the right; empty for the whole table.
    """

    verb: str
    table: str
    columns: tuple[str, ...] = ()

    @property
    def grant(self) -> str:
        columns = f" ({', '.join(self.columns)})" if self.columns else ""
        return f"GRANT {self.verb}{columns} ON {self.table} TO {ROLE}"

    @property
    def is_held(self) -> "sa.ColumnElement[bool]":
        if not self.columns:
            return sa.func.has_table_privilege(ROLE, self.table, self.verb)
        return sa.and_(*(sa.func.has_column_privilege(ROLE, self.table, column, self.verb) for column in self.columns))


_RIGHTS = (
    _Right("SELECT", "instance_details", ("instance_id", "model_token_generation", "model_token_floor")),
    _Right("SELECT", "hermes_instances", ("id", "plan", "vm_ip")),
    _Right("SELECT", "model_budgets"),
    *(_Right(verb, "model_usage") for verb in ("SELECT", "INSERT", "UPDATE")),
    _Right("SELECT", "model_usage_batches", ("id",)),
    _Right("INSERT", "model_usage_batches"),
)


def grant(database: Database) -> None:
    """Give the role its rights, where the database has such a role that lacks one; safe from two processes."""
    if database.is_sqlite or not _lacks_one(database):
        return
    with database.writing(guarded=False) as connection:
        # Two grants on one table at once end in "tuple concurrently updated": PostgreSQL does not lock the catalogue.
        schema_version.lock(database, connection)
        connection.exec_driver_sql(f"GRANT USAGE ON SCHEMA public TO {ROLE}")
        for right in _RIGHTS:
            connection.exec_driver_sql(right.grant)


def _lacks_one(database: Database) -> bool:
    roles = sa.table("pg_roles", sa.column("rolname"))
    has_all = sa.and_(sa.func.has_schema_privilege(ROLE, "public", "USAGE"), *(right.is_held for right in _RIGHTS))
    with database.reading() as connection:
        # Of a role that is not there, PostgreSQL refuses to say what it may do.
        if connection.execute(sa.select(roles).where(roles.c.rolname == ROLE)).first() is None:
            return False
        return connection.execute(sa.select(has_all)).scalar() is False
