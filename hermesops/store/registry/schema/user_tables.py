"""Tables of the users' half: their turns, and what they ask for. The API's own database role may write them.

A second key ring, ``messages``, seals what users say: the process that the internet reaches has no other key.
"""

import sqlalchemy as sa

from hermesops.store.registry.schema.columns import UtcTimestamp, uuid
from hermesops.store.registry.schema.tables import SEALED, metadata

MESSAGES = "messages"
"""The key ring that seals what users say, as a column's ``info`` names it."""

turns = sa.Table(
    "turns",
    metadata,
    sa.Column("id", uuid(), primary_key=True),
    sa.Column("user_id", uuid(), sa.ForeignKey("users.id"), nullable=False),
    sa.Column("instance_id", uuid(), sa.ForeignKey("hermes_instances.id"), nullable=False, index=True),
    sa.Column("conversation", sa.String(64), nullable=False),
    sa.Column("client_key", sa.String(64), nullable=False),
    # The user's text; NULL once the turn has ended.
    sa.Column("message", sa.Text, nullable=True, info={SEALED: MESSAGES}),
    # Text and not an enumeration of the database: words are added with time, and an older hermesops may meet one.
    sa.Column("state", sa.String(16), nullable=False, index=True),
    sa.Column("transcript_mark", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("run_id", sa.String(128), nullable=False, server_default=""),
    sa.Column("created_at", UtcTimestamp, nullable=False),
    sa.Column("sent_at", UtcTimestamp, nullable=True),
    sa.Column("ended_at", UtcTimestamp, nullable=True, index=True),
    sa.Column("detail", sa.String(500), nullable=False, server_default=""),
    # The process that carries the turn, and until when no other one may.
    sa.Column("carrier", sa.String(64), nullable=True),
    sa.Column("carried_until", UtcTimestamp, nullable=True),
    sa.UniqueConstraint("user_id", "client_key", name="uq_turns_client_key"),
    sa.Index("ix_turns_user_id_conversation", "user_id", "conversation"),
)
