"""Keep every step of an operation, not only its last one."""

import sqlalchemy as sa
from alembic import op

from hermesops.registry.schema.columns import UtcTimestamp, uuid

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Make the table; operations of before have no history."""
    op.create_table(
        "operation_steps",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("operation_id", uuid(), nullable=False),
        sa.Column("at", UtcTimestamp(), nullable=False),
        sa.Column("step", sa.String(length=255), nullable=False),
        sa.Column("holder", sa.String(length=255), nullable=False),
        sa.Column("problem", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["operation_id"], ["operations.id"], name=op.f("fk_operation_steps_operation_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_operation_steps")),
    )
    op.create_index(op.f("ix_operation_steps_operation_id"), "operation_steps", ["operation_id"], unique=False)
