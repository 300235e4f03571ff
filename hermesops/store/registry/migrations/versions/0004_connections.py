"""Tables of connections to services. They are written out here, so that later changes do not change this step."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Make the tables of users' connections and of agents' access to them."""
    from hermesops.store.registry.schema.columns import UtcTimestamp, uuid  # noqa: PLC0415 - scripts are found by path

    op.create_table(
        "user_connections",
        sa.Column("id", uuid(), nullable=False),
        sa.Column("user_id", uuid(), nullable=False),
        sa.Column("instance_id", uuid(), nullable=False),
        sa.Column("service", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("account", sa.String(128), nullable=False, server_default=""),
        sa.Column("callback_hash", sa.String(64), nullable=True),
        sa.Column("session", sa.String(64), nullable=False, server_default=""),
        sa.Column("detail", sa.String(200), nullable=False, server_default=""),
        sa.Column("created_at", UtcTimestamp, nullable=False),
        sa.Column("changed_at", UtcTimestamp, nullable=False),
        sa.Column("link_expires_at", UtcTimestamp, nullable=False),
        sa.Column("linked_at", UtcTimestamp, nullable=True),
        sa.Column("checked_at", UtcTimestamp, nullable=True),
        sa.Column("cleaned_at", UtcTimestamp, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_user_connections"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_user_connections_user_id"),
        sa.ForeignKeyConstraint(["instance_id"], ["hermes_instances.id"], name="fk_user_connections_instance_id"),
        sa.UniqueConstraint("callback_hash", name="uq_user_connections_callback_hash"),
    )
    for column in ("user_id", "instance_id", "state"):
        op.create_index(f"ix_user_connections_{column}", "user_connections", [column])
    is_live = sa.text("state IN ('linked', 'expired')")
    op.create_index(
        "one_live_connection_per_service",
        "user_connections",
        ["instance_id", "service"],
        unique=True,
        sqlite_where=is_live,
        postgresql_where=is_live,
    )
    op.create_table(
        "mcp_access",
        sa.Column("instance_id", uuid(), nullable=False),
        sa.Column("token_hash", sa.String(64), nullable=False),
        sa.Column("created_at", UtcTimestamp, nullable=False),
        sa.Column("vendor_session", sa.String(128), nullable=False, server_default=""),
        sa.Column("vendor_url", sa.String(1024), nullable=False, server_default=""),
        sa.Column("accounts_digest", sa.String(64), nullable=False, server_default=""),
        sa.PrimaryKeyConstraint("instance_id", name="pk_mcp_access"),
        sa.ForeignKeyConstraint(["instance_id"], ["hermes_instances.id"], name="fk_mcp_access_instance_id"),
        sa.UniqueConstraint("token_hash", name="uq_mcp_access_token_hash"),
    )
