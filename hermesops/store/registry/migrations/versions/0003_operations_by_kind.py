"""Find the repairs of a day, and other operations of a kind, among millions."""

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make an index; older code does not mind it."""
    op.create_index("ix_operations_kind_created_at", "operations", ["kind", "created_at"])
