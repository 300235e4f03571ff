"""Tables of messengers: linked accounts, codes that link them, messages both ways, files and sockets of agents.

The users' API adds incoming messages and codes; the connector does everything else. What users and agents say is sealed
by the key ring ``messages`` and dropped a day after it has ended.
"""

import sqlalchemy as sa

from hermesops.store.registry.schema.columns import UtcTimestamp, uuid
from hermesops.store.registry.schema.tables import SEALED, metadata
from hermesops.store.registry.schema.user_tables import MESSAGES

__all__ = [
    "UNDER_WAY",
    "agent_files",
    "agent_sockets",
    "bot_sessions",
    "incoming_messages",
    "link_codes",
    "messenger_accounts",
    "messenger_chats",
    "metadata",
    "outgoing_messages",
]

messenger_accounts = sa.Table(
    "messenger_accounts",
    metadata,
    sa.Column("messenger", sa.String(16), primary_key=True),
    # The messenger's id of the author, which it vouches for.
    sa.Column("account", sa.String(64), primary_key=True),
    sa.Column("user_id", uuid(), sa.ForeignKey("users.id"), nullable=False, index=True),
    sa.Column("vendor_chat", sa.String(64), nullable=False),
    sa.Column("display", sa.Text, nullable=False, info={SEALED: MESSAGES}),
    sa.Column("linked_at", UtcTimestamp, nullable=False),
    # Since when the user has blocked the bot.
    sa.Column("blocked_at", UtcTimestamp, nullable=True),
    # An agent may write to the chats of its user alone, and finds a chat by its name.
    sa.UniqueConstraint("messenger", "vendor_chat", name="uq_messenger_accounts_chat"),
)

messenger_chats = sa.Table(
    "messenger_chats",
    metadata,
    sa.Column("messenger", sa.String(16), primary_key=True),
    # A keyed digest of the person's id, where that id is a telephone number.
    sa.Column("vendor_chat", sa.String(64), primary_key=True),
    # Where the bot writes to.
    sa.Column("address", sa.Text, nullable=False, info={SEALED: MESSAGES}),
    # When the person wrote last: for how long the bot may answer.
    sa.Column("heard_at", UtcTimestamp, nullable=False, index=True),
    # When that was known here.
    sa.Column("noted_at", UtcTimestamp, nullable=False),
)
"""Chats of messengers whose bots write to another address than the chat's id, and for a limited time."""

link_codes = sa.Table(
    "link_codes",
    metadata,
    # SHA-256 of the code: who reads the table can link nothing.
    sa.Column("code_hash", sa.String(64), primary_key=True),
    sa.Column("user_id", uuid(), nullable=False, index=True),
    sa.Column("created_at", UtcTimestamp, nullable=False),
    sa.Column("expires_at", UtcTimestamp, nullable=False, index=True),
    sa.Column("used_at", UtcTimestamp, nullable=True),
)

incoming_messages = sa.Table(
    "incoming_messages",
    metadata,
    # SQLite numbers rows by itself only in a column declared INTEGER.
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
    sa.Column("messenger", sa.String(16), nullable=False),
    sa.Column("vendor_id", sa.String(128), nullable=False),
    # Texts and not enumerations of the database: words are added with time, and an older hermesops may meet one.
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("account", sa.String(64), nullable=False),
    sa.Column("vendor_chat", sa.String(64), nullable=False),
    # The text, the author's name and the messenger's references to files; NULL a day after the end.
    sa.Column("body", sa.Text, nullable=True, info={SEALED: MESSAGES}),
    sa.Column("user_id", uuid(), nullable=True),
    sa.Column("instance_id", uuid(), nullable=True, index=True),
    # Number of the socket that it was written to, and how often it was written to one.
    sa.Column("fence", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("tries", sa.Integer, nullable=False, server_default="0"),
    sa.Column("received_at", UtcTimestamp, nullable=False),
    sa.Column("sent_at", UtcTimestamp, nullable=True),
    sa.Column("ended_at", UtcTimestamp, nullable=True, index=True),
    sa.Column("detail", sa.String(200), nullable=False, server_default=""),
    # A messenger repeats what it was not told in time that we have.
    sa.UniqueConstraint("messenger", "vendor_id", name="uq_incoming_messages_vendor_id"),
    sa.Index("ix_incoming_messages_state", "state", "instance_id"),
    sa.Index("ix_incoming_messages_chat", "messenger", "vendor_chat", "id"),
)

UNDER_WAY = "state IN ('sent', 'taken')"
"""Condition of the partial index that lets an agent have one message of a chat at a time."""

outgoing_messages = sa.Table(
    "outgoing_messages",
    metadata,
    sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
    # The agent's id of the request and the part's number: an agent that repeats a request gets the same rows.
    sa.Column("origin", sa.String(128), nullable=False),
    sa.Column("part", sa.Integer, nullable=False),
    sa.Column("messenger", sa.String(16), nullable=False),
    sa.Column("vendor_chat", sa.String(64), nullable=False),
    # The agent that wrote it; NULL where the platform did.
    sa.Column("instance_id", uuid(), nullable=True, index=True),
    # The message that it answers; NULL where it answers none.
    sa.Column("incoming_id", sa.BigInteger, nullable=True),
    # The text, or the name of the file; NULL a day after the end.
    sa.Column("body", sa.Text, nullable=True, info={SEALED: MESSAGES}),
    sa.Column("state", sa.String(16), nullable=False),
    # The messenger's id of the message that it became.
    sa.Column("vendor_id", sa.String(128), nullable=False, server_default=""),
    sa.Column("tries", sa.Integer, nullable=False, server_default="0"),
    sa.Column("created_at", UtcTimestamp, nullable=False),
    sa.Column("not_before", UtcTimestamp, nullable=True),
    sa.Column("ended_at", UtcTimestamp, nullable=True, index=True),
    sa.Column("detail", sa.String(200), nullable=False, server_default=""),
    # Of the file that the part is; NULL for a text.
    sa.Column("file_id", uuid(), nullable=True),
    sa.UniqueConstraint("origin", "part", name="uq_outgoing_messages_origin"),
    sa.Index("ix_outgoing_messages_chat", "messenger", "vendor_chat", "id"),
    sa.Index("ix_outgoing_messages_state", "state", "not_before"),
)

agent_files = sa.Table(
    "agent_files",
    metadata,
    sa.Column("id", uuid(), primary_key=True),
    # 0 has the name and the type, the others the content in its order: no process seals 25 MB at once.
    sa.Column("piece", sa.Integer, primary_key=True, autoincrement=False),
    # The agent that sent it, which alone may send it on.
    sa.Column("instance_id", uuid(), nullable=False, index=True),
    # Of the whole file.
    sa.Column("bytes", sa.Integer, nullable=False),
    sa.Column("created_at", UtcTimestamp, nullable=False, index=True),
    sa.Column("content", sa.Text, nullable=False, info={SEALED: MESSAGES}),
)
"""Files of agents, until the text of the part that they are is dropped, or for an hour where they are in none."""

bot_sessions = sa.Table(
    "bot_sessions",
    metadata,
    sa.Column("messenger", sa.String(16), primary_key=True),
    # When the messenger last answered the bot's session.
    sa.Column("seen_at", UtcTimestamp, nullable=False),
)
"""Sessions by which messages come from a messenger that sends none to a webhook."""

agent_sockets = sa.Table(
    "agent_sockets",
    metadata,
    sa.Column("instance_id", uuid(), sa.ForeignKey("hermes_instances.id"), primary_key=True),
    # The process that holds the agent's socket; empty where none does.
    sa.Column("holder", sa.String(64), nullable=False, server_default=""),
    # Grows with each socket of the agent: what an older one still does changes nothing.
    sa.Column("fence", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("since", UtcTimestamp, nullable=False),
    sa.Column("seen_at", UtcTimestamp, nullable=False),
)
