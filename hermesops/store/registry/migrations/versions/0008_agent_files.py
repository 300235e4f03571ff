"""Files that agents send to their users in messengers, in pieces, and sessions of bots."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Make the tables of files and of bots' sessions, and name a part's file in its row."""
    from hermesops.store.registry.schema.columns import UtcTimestamp, uuid  # noqa: PLC0415 - scripts are found by path

    op.create_table(
        "agent_files",
        sa.Column("id", uuid(), nullable=False),
        sa.Column("piece", sa.Integer, nullable=False),
        sa.Column("instance_id", uuid(), nullable=False),
        sa.Column("bytes", sa.Integer, nullable=False),
        sa.Column("created_at", UtcTimestamp, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", "piece", name="pk_agent_files"),
    )
    for column in ("instance_id", "created_at"):
        op.create_index(f"ix_agent_files_{column}", "agent_files", [column])
    op.create_table(
        "bot_sessions",
        sa.Column("messenger", sa.String(16), nullable=False),
        sa.Column("seen_at", UtcTimestamp, nullable=False),
        sa.PrimaryKeyConstraint("messenger", name="pk_bot_sessions"),
    )
    op.add_column("outgoing_messages", sa.Column("file_id", uuid(), nullable=True))
