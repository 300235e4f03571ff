"""Keep until when a scheduled termination can be cancelled."""

import sqlalchemy as sa
from alembic import op

from hermesops.registry.schema.columns import UtcTimestamp

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add the column; it is empty for every agent that shall live."""
    op.add_column("instance_details", sa.Column("grace_until", UtcTimestamp(), nullable=True))
