"""Tables of metered usage, copies of settings, and figures of the API, written out: later changes change no step."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Make the tables, and number changes of settings."""
    from hermesops.store.registry.schema.columns import UtcTimestamp, uuid  # noqa: PLC0415 - scripts are found by path

    op.create_table(
        "metered_usage",
        sa.Column("identifier", sa.String(100), nullable=False),
        sa.Column("meter", sa.String(32), nullable=False),
        sa.Column("instance_id", uuid(), nullable=False),
        sa.Column("user_id", uuid(), nullable=False),
        sa.Column("subscription_id", sa.String(255), nullable=False),
        sa.Column("day", sa.Date, nullable=False),
        sa.Column("sequence", sa.Integer, nullable=False),
        sa.Column("quantity", sa.BigInteger, nullable=False),
        sa.Column("measured_at", UtcTimestamp, nullable=False),
        sa.Column("entered_at", UtcTimestamp, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("customer", sa.String(255), nullable=False, server_default=""),
        sa.Column("first_tried_at", UtcTimestamp, nullable=True),
        sa.Column("ended_at", UtcTimestamp, nullable=True),
        sa.Column("detail", sa.String(500), nullable=False, server_default=""),
        sa.PrimaryKeyConstraint("identifier", name="pk_metered_usage"),
        sa.UniqueConstraint("user_id", "meter", "measured_at", name="uq_metered_usage_minute"),
    )
    for column in ("measured_at", "state", "ended_at", "day"):
        op.create_index(f"ix_metered_usage_{column}", "metered_usage", [column])
    op.create_table(
        "settings_copies",
        sa.Column("instance_id", uuid(), nullable=False),
        sa.Column("settings", sa.Text, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
        sa.Column("copied_at", UtcTimestamp, nullable=False),
        sa.PrimaryKeyConstraint("instance_id", name="pk_settings_copies"),
        sa.ForeignKeyConstraint(["instance_id"], ["hermes_instances.id"], name="fk_settings_copies_instance_id"),
    )
    op.create_table(
        "api_figures",
        sa.Column("process", sa.String(64), nullable=False),
        sa.Column("written_at", UtcTimestamp, nullable=False),
        sa.Column("users", sa.Integer, nullable=False),
        sa.Column("slow_users", sa.Integer, nullable=False),
        sa.Column("webhooks_taken", sa.Integer, nullable=False),
        sa.Column("webhooks_refused", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("process", name="pk_api_figures"),
    )
    op.add_column("instance_details", sa.Column("settings_revision", sa.Integer, nullable=False, server_default="0"))
    # Settings of before may have been changed: workers copy all of them once.
    op.execute("UPDATE instance_details SET settings_revision = 1")
