"""Let a cell take one plan only, and note when it was last brought to its rows."""

import sqlalchemy as sa
from alembic import op

from hermesops.registry.schema.columns import UtcTimestamp

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Add both columns; cells made before take every plan."""
    op.add_column("cells", sa.Column("only_plan", sa.String(length=16), nullable=True))
    op.add_column("cells", sa.Column("brought_at", UtcTimestamp(), nullable=True))
