"""Keep the keys of machines' data volumes."""

import sqlalchemy as sa
from alembic import op

from hermesops.registry.schema.columns import UtcTimestamp, uuid

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Add the table; a row comes when a machine first asks for its volume's key."""
    op.create_table(
        "data_keys",
        sa.Column("volume_id", uuid(), nullable=False),
        sa.Column("machine_id", sa.String(64), nullable=False),
        sa.Column("instance_id", uuid(), nullable=True),
        sa.Column("key", sa.Text(), nullable=True),
        sa.Column("created_at", UtcTimestamp(), nullable=False),
        sa.Column("destroyed_at", UtcTimestamp(), nullable=True),
        sa.PrimaryKeyConstraint("volume_id", name=op.f("pk_data_keys")),
        sa.ForeignKeyConstraint(["instance_id"], ["hermes_instances.id"], name=op.f("fk_data_keys_instance_id")),
    )
    for column in ("instance_id", "machine_id"):
        op.create_index(op.f(f"ix_data_keys_{column}"), "data_keys", [column])
