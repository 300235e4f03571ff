"""Keep what opens each instance's repository, and which backups are in it."""

import sqlalchemy as sa
from alembic import op

from hermesops.registry.schema.columns import UtcTimestamp, uuid

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Add both tables; they fill with the first backups."""
    op.create_table(
        "backup_repositories",
        sa.Column("instance_id", uuid(), nullable=False),
        sa.Column("password", sa.Text(), nullable=False),
        sa.Column("access_key", sa.Text(), nullable=True),
        sa.Column("secret_key", sa.Text(), nullable=True),
        sa.Column("issued_at", UtcTimestamp(), nullable=True),
        sa.Column("restored_by", uuid(), nullable=True),
        sa.PrimaryKeyConstraint("instance_id", name=op.f("pk_backup_repositories")),
        sa.ForeignKeyConstraint(
            ["instance_id"], ["hermes_instances.id"], name=op.f("fk_backup_repositories_instance_id")
        ),
    )
    op.create_table(
        "backups",
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("instance_id", uuid(), nullable=False),
        sa.Column("at", UtcTimestamp(), nullable=False),
        sa.Column("why", sa.String(255), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("added", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.JSON(), nullable=False),
        sa.Column("checked_at", UtcTimestamp(), nullable=True),
        sa.Column("checked", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_backups")),
        sa.ForeignKeyConstraint(["instance_id"], ["hermes_instances.id"], name=op.f("fk_backups_instance_id")),
    )
    op.create_index(op.f("ix_backups_instance_id"), "backups", ["instance_id"])
