"""Keep machines that a cell has beside its instances': of the warm pool, and those that instances change between."""

import sqlalchemy as sa
from alembic import op

from hermesops.registry.schema.columns import UtcTimestamp, uuid

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Add the table; it is empty where nobody asked for a pool."""
    op.create_table(
        "spare_machines",
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("purpose", sa.String(16), nullable=False),
        sa.Column("instance_id", uuid(), nullable=True),
        sa.Column("cell", sa.String(64), nullable=False),
        sa.Column("plan", sa.String(16), nullable=False),
        sa.Column("server_type", sa.String(64), nullable=False),
        sa.Column("region", sa.String(64), nullable=False),
        sa.Column("image_id", sa.String(64), nullable=True),
        sa.Column("machine_id", sa.String(64), nullable=True),
        sa.Column("wanted", sa.Boolean(name="wanted"), nullable=False),
        sa.Column("api_server_key", sa.Text(), nullable=True),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("created_at", UtcTimestamp(), nullable=False),
        sa.Column("ready_at", UtcTimestamp(), nullable=True),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_spare_machines")),
        sa.ForeignKeyConstraint(["instance_id"], ["hermes_instances.id"], name=op.f("fk_spare_machines_instance_id")),
        sa.ForeignKeyConstraint(["cell"], ["cells.name"], name=op.f("fk_spare_machines_cell")),
    )
    op.create_index(op.f("ix_spare_machines_cell"), "spare_machines", ["cell"])
    op.create_index(op.f("ix_spare_machines_instance_id"), "spare_machines", ["instance_id"])
    op.create_index(
        "one_next_machine_per_instance",
        "spare_machines",
        ["instance_id"],
        unique=True,
        sqlite_where=sa.text("purpose = 'next' AND wanted"),
        postgresql_where=sa.text("purpose = 'next' AND wanted"),
    )
