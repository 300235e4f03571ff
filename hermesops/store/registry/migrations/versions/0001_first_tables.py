"""The first tables. There is no older registry, and a new one is made from ``schema.tables``: nothing is migrated."""

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Change nothing; later revisions begin here."""
