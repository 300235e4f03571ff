"""Keep for some days what nodes say of their agents in figures: a release is judged by what was before it."""

import sqlalchemy as sa
from alembic import op

from hermesops.registry.schema.columns import UtcTimestamp, uuid

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Add the table; nothing was compared before."""
    op.create_table(
        "readings",
        sa.Column("instance_id", uuid(), nullable=False),
        sa.Column("at", UtcTimestamp(), nullable=False),
        sa.Column("reading", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("instance_id", "at", name=op.f("pk_readings")),
        sa.ForeignKeyConstraint(["instance_id"], ["hermes_instances.id"], name=op.f("fk_readings_instance_id")),
    )
    op.create_index(op.f("ix_readings_at"), "readings", ["at"])
