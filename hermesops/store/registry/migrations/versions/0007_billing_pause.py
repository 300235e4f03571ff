"""Pause of the collection of a subscription's payments."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add a column, which older code does not know: to it a paused collection is a paid subscription."""
    op.add_column("billing_events", sa.Column("pause", sa.String(32), nullable=True))
