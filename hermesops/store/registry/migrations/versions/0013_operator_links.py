"""Links that the served console's operators keep."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "operator_links",
        sa.Column("operator", sa.String(255), nullable=False),
        sa.Column("name", sa.String(60), nullable=False),
        sa.Column("page", sa.String(1024), nullable=False),
        sa.PrimaryKeyConstraint("operator", "name", name="pk_operator_links"),
    )
