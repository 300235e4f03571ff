"""What the platform's model router may do with the tables: its role in PostgreSQL has these rights and no others."""

import sqlalchemy as sa

from hermesops.registry.database import Database
from hermesops.registry.schema import schema_version

ROLE = "router"

_GRANTS = (
    "USAGE ON SCHEMA public",
    "SELECT (instance_id, model_token_generation, model_token_floor) ON instance_details",
    "SELECT (id, plan, vm_ip) ON hermes_instances",
    "SELECT ON model_budgets",
    "SELECT, INSERT, UPDATE ON model_usage",
    "SELECT (id), INSERT ON model_usage_batches",
)

_HAS = sa.text(
    "SELECT has_column_privilege(rolname, 'instance_details', 'model_token_floor', 'SELECT')"
    " AND has_table_privilege(rolname, 'model_usage', 'INSERT')"
    " AND has_column_privilege(rolname, 'model_usage_batches', 'id', 'SELECT') FROM pg_roles WHERE rolname = :role"
)


def grant(database: Database) -> None:
    """Give the role its rights, where the database has such a role that lacks them; safe from two processes."""
    if database.is_sqlite or not _lacks(database):
        return
    with database.writing(guarded=False) as connection:
        # Two grants on one table at once end in "tuple concurrently updated": PostgreSQL does not lock the catalogue.
        schema_version.lock(database, connection)
        for right in _GRANTS:
            connection.exec_driver_sql(f"GRANT {right} TO {ROLE}")


def _lacks(database: Database) -> bool:
    with database.reading() as connection:
        return connection.execute(_HAS, {"role": ROLE}).scalar() is False
