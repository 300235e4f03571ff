"""Tables of the users' half. They are written out here, so that later changes of the tables do not change this step."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make the tables of users' turns, approvals, files and sessions."""
    from hermesops.store.registry.schema.columns import UtcTimestamp, uuid  # noqa: PLC0415 - scripts are found by path

    op.create_table(
        "turns",
        sa.Column("id", uuid(), nullable=False),
        sa.Column("user_id", uuid(), nullable=False),
        sa.Column("instance_id", uuid(), nullable=False),
        sa.Column("conversation", sa.String(64), nullable=False),
        sa.Column("client_key", sa.String(64), nullable=False),
        sa.Column("message", sa.Text, nullable=True),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("transcript_mark", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("run_id", sa.String(128), nullable=False, server_default=""),
        sa.Column("created_at", UtcTimestamp, nullable=False),
        sa.Column("sent_at", UtcTimestamp, nullable=True),
        sa.Column("stop_at", UtcTimestamp, nullable=True),
        sa.Column("ended_at", UtcTimestamp, nullable=True),
        sa.Column("detail", sa.String(500), nullable=False, server_default=""),
        sa.Column("carrier", sa.String(64), nullable=True),
        sa.Column("carried_until", UtcTimestamp, nullable=True),
        sa.Column("carries", sa.Integer, nullable=False, server_default="0"),
        sa.PrimaryKeyConstraint("id", name="pk_turns"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_turns_user_id"),
        sa.ForeignKeyConstraint(["instance_id"], ["hermes_instances.id"], name="fk_turns_instance_id"),
        sa.UniqueConstraint("user_id", "client_key", name="uq_turns_client_key"),
    )
    op.create_index("ix_turns_instance_id", "turns", ["instance_id"])
    op.create_index("ix_turns_ended_at", "turns", ["ended_at"])
    op.create_index("ix_turns_user_id_conversation", "turns", ["user_id", "conversation"])
    is_open = sa.text("ended_at IS NULL")
    op.create_index(
        "one_open_turn_per_conversation",
        "turns",
        ["user_id", "conversation"],
        unique=True,
        sqlite_where=is_open,
        postgresql_where=is_open,
    )
    op.create_table(
        "turn_approvals",
        sa.Column("turn_id", uuid(), nullable=False),
        sa.Column("number", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("asked_at", UtcTimestamp, nullable=False),
        sa.Column("answered_at", UtcTimestamp, nullable=True),
        sa.Column("choice", sa.String(16), nullable=False, server_default=""),
        sa.Column("request", sa.Text, nullable=True),
        sa.PrimaryKeyConstraint("turn_id", "number", name="pk_turn_approvals"),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name="fk_turn_approvals_turn_id"),
    )
    op.create_table(
        "chat_files",
        sa.Column("id", uuid(), nullable=False),
        sa.Column("user_id", uuid(), nullable=False),
        sa.Column("turn_id", uuid(), nullable=True),
        sa.Column("bytes", sa.Integer, nullable=False),
        sa.Column("created_at", UtcTimestamp, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_chat_files"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_chat_files_user_id"),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name="fk_chat_files_turn_id"),
    )
    for column in ("user_id", "turn_id", "created_at"):
        op.create_index(f"ix_chat_files_{column}", "chat_files", [column])
    op.create_table(
        "web_sessions",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("user_id", uuid(), nullable=False),
        sa.Column("tokens", sa.Text, nullable=False),
        sa.Column("created_at", UtcTimestamp, nullable=False),
        sa.Column("expires_at", UtcTimestamp, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_web_sessions"),
    )
    for column in ("user_id", "expires_at"):
        op.create_index(f"ix_web_sessions_{column}", "web_sessions", [column])
