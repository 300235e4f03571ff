"""Remember how each machine looked when it was last looked at, so that a later look tells what has changed."""

import sqlalchemy as sa
from alembic import op

from hermesops.registry.schema.columns import UtcTimestamp

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the table; it fills with the first look."""
    op.create_table(
        "machine_sightings",
        sa.Column("machine_id", sa.String(64), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("server_type", sa.String(64), nullable=False),
        sa.Column("status", sa.String(32), nullable=False),
        sa.Column("boot_id", sa.String(64), nullable=False),
        sa.Column("boot_seen_at", UtcTimestamp, nullable=True),
        sa.PrimaryKeyConstraint("machine_id", name=op.f("pk_machine_sightings")),
    )
