"""Keep what an instance's settings were, so that an operator can go back."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the column; it is empty until settings are changed."""
    op.add_column("instance_details", sa.Column("settings_before", sa.Text(), nullable=True))
