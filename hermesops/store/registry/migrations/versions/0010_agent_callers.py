"""Agents that call users' agents, their tasks, and addresses that are notified."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Make the tables of callers, tasks and notified addresses."""
    from hermesops.store.registry.schema.columns import UtcTimestamp, uuid  # noqa: PLC0415 - scripts are found by path

    op.create_table(
        "agent_callers",
        sa.Column("id", uuid(), nullable=False),
        sa.Column("user_id", uuid(), nullable=False),
        sa.Column("instance_id", uuid(), nullable=False),
        sa.Column("client_key", sa.String(64), nullable=False),
        sa.Column("key_hash", sa.String(64), nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("may_approve", sa.Boolean(name="may_approve"), nullable=False),
        sa.Column("created_at", UtcTimestamp, nullable=False),
        sa.Column("used_at", UtcTimestamp, nullable=True),
        sa.Column("revoked_at", UtcTimestamp, nullable=True),
        sa.Column("recorded", sa.String(16), nullable=False, server_default=""),
        sa.PrimaryKeyConstraint("id", name="pk_agent_callers"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_agent_callers_user_id"),
        sa.ForeignKeyConstraint(["instance_id"], ["hermes_instances.id"], name="fk_agent_callers_instance_id"),
        sa.UniqueConstraint("key_hash", name="uq_agent_callers_key_hash"),
        sa.UniqueConstraint("user_id", "client_key", name="uq_agent_callers_client_key"),
    )
    op.create_index("ix_agent_callers_instance_id", "agent_callers", ["instance_id"])
    op.create_table(
        "called_tasks",
        sa.Column("turn_id", uuid(), nullable=False),
        sa.Column("caller_id", uuid(), nullable=False),
        sa.Column("context", sa.String(128), nullable=False),
        sa.PrimaryKeyConstraint("turn_id", name="pk_called_tasks"),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name="fk_called_tasks_turn_id"),
        sa.ForeignKeyConstraint(["caller_id"], ["agent_callers.id"], name="fk_called_tasks_caller_id"),
    )
    op.create_index("ix_called_tasks_caller_id", "called_tasks", ["caller_id"])
    op.create_table(
        "task_pushes",
        sa.Column("turn_id", uuid(), nullable=False),
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("created_at", UtcTimestamp, nullable=False),
        sa.Column("sent", sa.String(32), nullable=False, server_default=""),
        sa.Column("tries", sa.Integer, nullable=False, server_default="0"),
        sa.Column("due_at", UtcTimestamp, nullable=False),
        sa.Column("ended_at", UtcTimestamp, nullable=True),
        sa.PrimaryKeyConstraint("turn_id", "id", name="pk_task_pushes"),
        sa.ForeignKeyConstraint(["turn_id"], ["turns.id"], name="fk_task_pushes_turn_id"),
    )
    op.create_index("ix_task_pushes_due_at", "task_pushes", ["due_at"])
