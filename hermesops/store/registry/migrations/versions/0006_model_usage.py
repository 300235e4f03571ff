"""Usage and monthly budgets of models, and tokens of two generations during a replacement."""

import sqlalchemy as sa
from alembic import op

from hermesops.store.registry.schema.columns import UtcTimestamp, uuid

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Make three tables and a column, which older code does not know: to it the generation stays the floor."""
    op.add_column("instance_details", sa.Column("model_token_floor", sa.Integer, nullable=True))
    op.add_column("instance_details", sa.Column("model_token_rotation", sa.String(32), nullable=True))
    op.create_table(
        "model_usage",
        sa.Column("day", sa.Date, primary_key=True),
        sa.Column("instance_id", uuid(), primary_key=True, index=True),
        sa.Column("model", sa.String(64), primary_key=True),
        sa.Column("provider", sa.String(32), primary_key=True),
        sa.Column("outcome", sa.String(16), primary_key=True),
        sa.Column("requests", sa.BigInteger, nullable=False),
        sa.Column("input_tokens", sa.BigInteger, nullable=False),
        sa.Column("output_tokens", sa.BigInteger, nullable=False),
        sa.Column("micros", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "model_usage_batches",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("at", UtcTimestamp, nullable=False, index=True),
    )
    op.create_table(
        "model_budgets",
        sa.Column("plan", sa.String(16), primary_key=True),
        sa.Column("tokens", sa.BigInteger, nullable=True),
        sa.Column("micros", sa.BigInteger, nullable=True),
    )
