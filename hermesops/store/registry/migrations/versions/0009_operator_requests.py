"""Requests of the served console's operators."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Make the table of operators' requests."""
    from hermesops.store.registry.schema.columns import UtcTimestamp, uuid  # noqa: PLC0415 - scripts are found by path

    op.create_table(
        "operator_requests",
        sa.Column("id", uuid(), nullable=False),
        sa.Column("operator", sa.String(255), nullable=False),
        sa.Column("action", sa.String(32), nullable=False),
        sa.Column("is_preview", sa.Boolean(name="is_preview"), nullable=False),
        sa.Column("instance_id", uuid(), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("proof", sa.Text, nullable=True),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("detail", sa.Text, nullable=False, server_default=""),
        sa.Column("answer", sa.Text, nullable=False, server_default=""),
        sa.Column("code", sa.String(16), nullable=False, server_default=""),
        sa.Column("operation_id", uuid(), nullable=True),
        sa.Column("created_at", UtcTimestamp, nullable=False),
        sa.Column("decided_at", UtcTimestamp, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_operator_requests"),
        sa.ForeignKeyConstraint(["instance_id"], ["hermes_instances.id"], name="fk_operator_requests_instance_id"),
        sa.ForeignKeyConstraint(["operation_id"], ["operations.id"], name="fk_operator_requests_operation_id"),
    )
    op.create_index("ix_operator_requests_instance_id", "operator_requests", ["instance_id"])
    op.create_index("ix_operator_requests_state", "operator_requests", ["state"])
