"""Subjects and values of operators' requests."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Add the columns; requests of before are about an instance, and have no values."""
    from hermesops.store.registry.schema.columns import uuid  # noqa: PLC0415 - scripts are found by path

    op.add_column("operator_requests", sa.Column("about", sa.String(16), nullable=False, server_default="instances"))
    op.add_column("operator_requests", sa.Column("subject", sa.String(128), nullable=False, server_default=""))
    op.add_column("operator_requests", sa.Column("form", sa.String(16384), nullable=False, server_default="{}"))
    with op.batch_alter_table("operator_requests") as batch:
        batch.alter_column("instance_id", existing_type=uuid(), nullable=True)
    rows = sa.table("operator_requests", sa.column("instance_id", uuid()), sa.column("subject", sa.String))
    connection = op.get_bind()
    for instance_id in connection.execute(sa.select(rows.c.instance_id).distinct()).scalars().all():
        is_its = rows.c.instance_id == instance_id
        connection.execute(rows.update().where(is_its).values(subject=instance_id))
