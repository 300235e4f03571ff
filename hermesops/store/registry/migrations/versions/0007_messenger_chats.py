"""Addresses of messengers' chats, and when their people wrote last."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Make the table of chats."""
    from hermesops.store.registry.schema.columns import UtcTimestamp  # noqa: PLC0415 - scripts are found by path

    op.create_table(
        "messenger_chats",
        sa.Column("messenger", sa.String(16), nullable=False),
        sa.Column("vendor_chat", sa.String(64), nullable=False),
        sa.Column("address", sa.Text, nullable=False),
        sa.Column("heard_at", UtcTimestamp, nullable=False),
        sa.Column("noted_at", UtcTimestamp, nullable=False),
        sa.PrimaryKeyConstraint("messenger", "vendor_chat", name="pk_messenger_chats"),
    )
    op.create_index("ix_messenger_chats_heard_at", "messenger_chats", ["heard_at"])
