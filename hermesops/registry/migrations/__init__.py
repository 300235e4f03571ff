"""Alembic's scripts; started by ``hermesops.registry.schema.schema_version`` with a connection of its own."""
