"""Keep which machine proves itself with which certificate, and which authorities machines trust."""

import sqlalchemy as sa
from alembic import op

from hermesops.registry.schema.columns import UtcTimestamp, uuid

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Add both tables; the first authority is written when it is made."""
    op.create_table(
        "authorities",
        sa.Column("certificate", sa.Text(), nullable=False),
        sa.Column("created_at", UtcTimestamp(), nullable=False),
        sa.PrimaryKeyConstraint("certificate", name=op.f("pk_authorities")),
    )
    op.create_table(
        "certificates",
        sa.Column("serial", sa.String(40), nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("machine_id", sa.String(64), nullable=False),
        sa.Column("instance_id", uuid(), nullable=True),
        sa.Column("cell", sa.String(64), nullable=True),
        sa.Column("issued_at", UtcTimestamp(), nullable=False),
        sa.Column("not_after", UtcTimestamp(), nullable=False),
        sa.Column("revoked_at", UtcTimestamp(), nullable=True),
        sa.Column("why", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("serial", name=op.f("pk_certificates")),
        sa.ForeignKeyConstraint(["instance_id"], ["hermes_instances.id"], name=op.f("fk_certificates_instance_id")),
    )
    for column in ("instance_id", "key", "machine_id", "not_after"):
        op.create_index(op.f(f"ix_certificates_{column}"), "certificates", [column])
