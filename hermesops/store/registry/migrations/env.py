"""Alembic's environment: runs every script on the one connection, inside its caller's transaction."""

from alembic import context

from hermesops.store.registry.schema.indexes import metadata

# Alembic would commit by itself; the caller holds the lock and commits, so that two processes cannot both migrate.
context.configure(connection=context.config.attributes["connection"], target_metadata=metadata, transactional_ddl=False)
context.run_migrations()
