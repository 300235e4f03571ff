"""Users' requests and plans. The tables are written out here, so that later changes do not change this step."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make the tables of users' requests and of their plans."""
    from hermesops.store.registry.schema.columns import UtcTimestamp, uuid  # noqa: PLC0415 - scripts are found by path

    op.create_table(
        "user_requests",
        sa.Column("id", uuid(), nullable=False),
        sa.Column("user_id", uuid(), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("client_key", sa.String(64), nullable=False),
        sa.Column("body", sa.Text, nullable=True),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("answer", sa.Text, nullable=True),
        sa.Column("code", sa.String(32), nullable=False, server_default=""),
        sa.Column("detail", sa.String(500), nullable=False, server_default=""),
        sa.Column("operation_id", uuid(), nullable=True),
        sa.Column("created_at", UtcTimestamp, nullable=False),
        sa.Column("decided_at", UtcTimestamp, nullable=True),
        sa.Column("ended_at", UtcTimestamp, nullable=True),
        sa.Column("due_at", UtcTimestamp, nullable=True),
        sa.Column("tries", sa.Integer, nullable=False, server_default="0"),
        sa.PrimaryKeyConstraint("id", name="pk_user_requests"),
        sa.ForeignKeyConstraint(["operation_id"], ["operations.id"], name="fk_user_requests_operation_id"),
        sa.UniqueConstraint("user_id", "client_key", name="uq_user_requests_client_key"),
    )
    op.create_index("ix_user_requests_ended_at", "user_requests", ["ended_at"])
    op.create_index("ix_user_requests_state_due_at", "user_requests", ["state", "due_at"])
    op.create_table(
        "user_plans",
        sa.Column("user_id", uuid(), nullable=False),
        sa.Column("statement", sa.Text, nullable=False),
        sa.Column("read_at", UtcTimestamp, nullable=False),
        sa.PrimaryKeyConstraint("user_id", name="pk_user_plans"),
    )
