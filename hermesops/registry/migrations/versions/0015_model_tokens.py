"""Keep when an instance's token for the model router runs out, and since when its machine has it."""

import sqlalchemy as sa
from alembic import op

from hermesops.registry.schema.columns import UtcTimestamp

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    """Add the columns; they are empty until the next token is made, which is due at once."""
    for name in ("model_token_expires_at", "model_token_handed_at"):
        op.add_column("instance_details", sa.Column(name, UtcTimestamp(), nullable=True))
