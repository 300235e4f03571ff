"""Orders to open machines' sshd, and the host keys that machines report."""

import sqlalchemy as sa
from alembic import op

from hermesops.store.registry.schema.columns import UtcTimestamp, uuid

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make two tables; older code does not know them."""
    op.create_table(
        "break_glass_orders",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("instance_id", uuid(), sa.ForeignKey("hermes_instances.id"), nullable=False, index=True),
        sa.Column("machine_id", sa.String(64), nullable=False, index=True),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("signature", sa.Text, nullable=False),
        sa.Column("source", sa.String(64), nullable=False),
        sa.Column("host_key", sa.Text, nullable=False),
        sa.Column("who", sa.String(255), nullable=False),
        sa.Column("why", sa.Text, nullable=False),
        sa.Column("created_at", UtcTimestamp, nullable=False),
        sa.Column("expires_at", UtcTimestamp, nullable=False),
        sa.Column("opened_at", UtcTimestamp, nullable=True),
        sa.Column("withdrawn_at", UtcTimestamp, nullable=True),
        sa.Column("closed_at", UtcTimestamp, nullable=True),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("address", sa.String(64), nullable=False),
    )
    op.create_table(
        "ssh_hosts",
        sa.Column("machine_id", sa.String(64), primary_key=True),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("address", sa.String(64), nullable=False),
        sa.Column("reported_at", UtcTimestamp, nullable=False),
    )
