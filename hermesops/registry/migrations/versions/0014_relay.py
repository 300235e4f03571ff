"""Keep who may call the relay, and with each token the address that it opens; nobody else is given a token."""

from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op

from hermesops.registry.schema.columns import UtcTimestamp

revision = "0014"
down_revision = "0013"

_tokens = sa.table("proxy_tokens", sa.column("purpose"), sa.column("expires_at", UtcTimestamp()))
_instances = sa.table("hermes_instances", sa.column("proxy_token"))
_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)


def upgrade() -> None:
    """Add the table and the column, and take back the tokens that were published."""
    op.create_table(
        "relay_callers",
        sa.Column("serial", sa.String(40), nullable=False),
        sa.Column("name", sa.String(31), nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("issued_at", UtcTimestamp(), nullable=False),
        sa.Column("not_after", UtcTimestamp(), nullable=False),
        sa.Column("revoked_at", UtcTimestamp(), nullable=True),
        sa.Column("why", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("serial", name=op.f("pk_relay_callers")),
    )
    op.create_index(op.f("ix_relay_callers_name"), "relay_callers", ["name"])
    op.add_column("proxy_tokens", sa.Column("address", sa.String(512), nullable=False, server_default=""))
    op.execute(_instances.update().values(proxy_token=None))
    # A worker replaces and revokes what has no life left.
    op.execute(_tokens.update().where(_tokens.c.purpose == "platform").values(expires_at=_LONG_AGO))
