"""Tables of the users' half."""

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the tables."""
    from hermesops.store.registry.schema.user_tables import turns  # noqa: PLC0415 - scripts are found by their path

    turns.create(op.get_bind())
