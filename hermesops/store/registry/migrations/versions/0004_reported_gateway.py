"""Health of an instance's gateway as reported with its last heartbeat."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Add a column that older code leaves empty."""
    op.add_column("instance_details", sa.Column("reported_gateway", sa.String(16), nullable=True))
