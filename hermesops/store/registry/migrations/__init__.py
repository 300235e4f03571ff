"""Alembic's scripts, for registries of an earlier revision; ``registry.schema.schema_version`` runs them."""
