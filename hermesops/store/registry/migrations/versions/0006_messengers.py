"""Tables of messengers. They are written out here, so that later changes of the tables do not change this step."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the tables of accounts, codes, messages and sockets."""
    _make_accounts()
    _make_incoming()
    _make_outgoing()


def _make_accounts() -> None:
    from hermesops.store.registry.schema.columns import UtcTimestamp, uuid  # noqa: PLC0415 - scripts are found by path

    op.create_table(
        "messenger_accounts",
        sa.Column("messenger", sa.String(16), nullable=False),
        sa.Column("account", sa.String(64), nullable=False),
        sa.Column("user_id", uuid(), nullable=False),
        sa.Column("vendor_chat", sa.String(64), nullable=False),
        sa.Column("display", sa.Text, nullable=False),
        sa.Column("linked_at", UtcTimestamp, nullable=False),
        sa.Column("blocked_at", UtcTimestamp, nullable=True),
        sa.PrimaryKeyConstraint("messenger", "account", name="pk_messenger_accounts"),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_messenger_accounts_user_id"),
        sa.UniqueConstraint("messenger", "vendor_chat", name="uq_messenger_accounts_chat"),
    )
    op.create_index("ix_messenger_accounts_user_id", "messenger_accounts", ["user_id"])
    op.create_table(
        "link_codes",
        sa.Column("code_hash", sa.String(64), nullable=False),
        sa.Column("user_id", uuid(), nullable=False),
        sa.Column("created_at", UtcTimestamp, nullable=False),
        sa.Column("expires_at", UtcTimestamp, nullable=False),
        sa.Column("used_at", UtcTimestamp, nullable=True),
        sa.PrimaryKeyConstraint("code_hash", name="pk_link_codes"),
    )
    for column in ("user_id", "expires_at"):
        op.create_index(f"ix_link_codes_{column}", "link_codes", [column])
    op.create_table(
        "agent_sockets",
        sa.Column("instance_id", uuid(), nullable=False),
        sa.Column("holder", sa.String(64), nullable=False, server_default=""),
        sa.Column("fence", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("since", UtcTimestamp, nullable=False),
        sa.Column("seen_at", UtcTimestamp, nullable=False),
        sa.PrimaryKeyConstraint("instance_id", name="pk_agent_sockets"),
        sa.ForeignKeyConstraint(["instance_id"], ["hermes_instances.id"], name="fk_agent_sockets_instance_id"),
    )


def _make_incoming() -> None:
    from hermesops.store.registry.schema.columns import UtcTimestamp, uuid  # noqa: PLC0415 - scripts are found by path

    op.create_table(
        "incoming_messages",
        sa.Column("id", _NUMBER, autoincrement=True, nullable=False),
        sa.Column("messenger", sa.String(16), nullable=False),
        sa.Column("vendor_id", sa.String(128), nullable=False),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("account", sa.String(64), nullable=False),
        sa.Column("vendor_chat", sa.String(64), nullable=False),
        sa.Column("body", sa.Text, nullable=True),
        sa.Column("user_id", uuid(), nullable=True),
        sa.Column("instance_id", uuid(), nullable=True),
        sa.Column("fence", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("tries", sa.Integer, nullable=False, server_default="0"),
        sa.Column("received_at", UtcTimestamp, nullable=False),
        sa.Column("sent_at", UtcTimestamp, nullable=True),
        sa.Column("ended_at", UtcTimestamp, nullable=True),
        sa.Column("detail", sa.String(200), nullable=False, server_default=""),
        sa.PrimaryKeyConstraint("id", name="pk_incoming_messages"),
        sa.UniqueConstraint("messenger", "vendor_id", name="uq_incoming_messages_vendor_id"),
    )
    for column in ("instance_id", "ended_at"):
        op.create_index(f"ix_incoming_messages_{column}", "incoming_messages", [column])
    op.create_index("ix_incoming_messages_state", "incoming_messages", ["state", "instance_id"])
    op.create_index("ix_incoming_messages_chat", "incoming_messages", ["messenger", "vendor_chat", "id"])
    is_under_way = sa.text("state IN ('sent', 'taken')")
    op.create_index(
        "one_message_under_way_per_chat",
        "incoming_messages",
        ["messenger", "vendor_chat"],
        unique=True,
        sqlite_where=is_under_way,
        postgresql_where=is_under_way,
    )


def _make_outgoing() -> None:
    from hermesops.store.registry.schema.columns import UtcTimestamp, uuid  # noqa: PLC0415 - scripts are found by path

    op.create_table(
        "outgoing_messages",
        sa.Column("id", _NUMBER, autoincrement=True, nullable=False),
        sa.Column("origin", sa.String(128), nullable=False),
        sa.Column("part", sa.Integer, nullable=False),
        sa.Column("messenger", sa.String(16), nullable=False),
        sa.Column("vendor_chat", sa.String(64), nullable=False),
        sa.Column("instance_id", uuid(), nullable=True),
        sa.Column("incoming_id", sa.BigInteger, nullable=True),
        sa.Column("body", sa.Text, nullable=True),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("vendor_id", sa.String(128), nullable=False, server_default=""),
        sa.Column("tries", sa.Integer, nullable=False, server_default="0"),
        sa.Column("created_at", UtcTimestamp, nullable=False),
        sa.Column("not_before", UtcTimestamp, nullable=True),
        sa.Column("ended_at", UtcTimestamp, nullable=True),
        sa.Column("detail", sa.String(200), nullable=False, server_default=""),
        sa.PrimaryKeyConstraint("id", name="pk_outgoing_messages"),
        sa.UniqueConstraint("origin", "part", name="uq_outgoing_messages_origin"),
    )
    for column in ("instance_id", "ended_at"):
        op.create_index(f"ix_outgoing_messages_{column}", "outgoing_messages", [column])
    op.create_index("ix_outgoing_messages_chat", "outgoing_messages", ["messenger", "vendor_chat", "id"])
    op.create_index("ix_outgoing_messages_state", "outgoing_messages", ["state", "not_before"])
