"""Alembic's scripts, for registries of an earlier revision; ``hermesops.registry.schema.schema_version`` runs them."""
