"""Stripe's events about subscriptions, as received and as read."""

import sqlalchemy as sa
from alembic import op

from hermesops.store.registry.schema.columns import UtcTimestamp, uuid

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Make a table; older code does not know it."""
    op.create_table(
        "billing_events",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("received_at", UtcTimestamp, nullable=False, server_default=sa.func.current_timestamp()),
        sa.Column("body", sa.LargeBinary, nullable=True),
        sa.Column("signature", sa.Text, nullable=True),
        sa.Column("state", sa.String(16), nullable=False, server_default="queued"),
        sa.Column("event_id", sa.String(255), nullable=True, unique=True),
        sa.Column("type", sa.String(64), nullable=True),
        sa.Column("subscription_id", sa.String(255), nullable=True, index=True),
        sa.Column("user_id", uuid(), nullable=True, index=True),
        sa.Column("prices", sa.JSON, nullable=True),
        sa.Column("status", sa.String(32), nullable=True),
        sa.Column("created_at", UtcTimestamp, nullable=True),
        sa.Column("started_at", UtcTimestamp, nullable=True),
        sa.Column("deliveries", sa.Integer, nullable=False, server_default="1"),
        sa.Column("detail", sa.Text, nullable=False, server_default=""),
        sa.Column("operation_id", uuid(), sa.ForeignKey("operations.id"), nullable=True),
        sa.Column("due_at", UtcTimestamp, nullable=True),
        sa.Column("decided_at", UtcTimestamp, nullable=True),
    )
    op.create_index("ix_billing_events_state_due_at", "billing_events", ["state", "due_at"])
