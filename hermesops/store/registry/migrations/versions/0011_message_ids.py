"""Calling agents' names of the messages that began their tasks."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Add the column; tasks of before have no name."""
    op.add_column("called_tasks", sa.Column("message_id", sa.String(128), nullable=False, server_default=""))
