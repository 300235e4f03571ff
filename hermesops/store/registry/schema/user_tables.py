"""Tables of the users' half: turns of the web chat, its files, requests, plans, and sessions of pages.

The users' API writes them, but for decisions about requests and for plans, which workers write.

A second key ring, ``messages``, seals what users say: the process that the internet reaches needs no other key.
"""

import sqlalchemy as sa

from hermesops.store.registry.schema.columns import UtcTimestamp, uuid
from hermesops.store.registry.schema.tables import SEALED, metadata

__all__ = [
    "MESSAGES",
    "OPEN_TURN",
    "chat_files",
    "metadata",
    "turn_approvals",
    "turns",
    "user_plans",
    "user_requests",
    "web_sessions",
]

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
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("transcript_mark", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("run_id", sa.String(128), nullable=False, server_default=""),
    sa.Column("created_at", UtcTimestamp, nullable=False),
    sa.Column("sent_at", UtcTimestamp, nullable=True),
    # When the user wanted it stopped.
    sa.Column("stop_at", UtcTimestamp, nullable=True),
    sa.Column("ended_at", UtcTimestamp, nullable=True, index=True),
    sa.Column("detail", sa.String(500), nullable=False, server_default=""),
    # The process that carries the turn, until when no other one may, and how many have carried it.
    sa.Column("carrier", sa.String(64), nullable=True),
    sa.Column("carried_until", UtcTimestamp, nullable=True),
    sa.Column("carries", sa.Integer, nullable=False, server_default="0"),
    sa.UniqueConstraint("user_id", "client_key", name="uq_turns_client_key"),
    sa.Index("ix_turns_user_id_conversation", "user_id", "conversation"),
)

OPEN_TURN = "ended_at IS NULL"
"""Condition of the partial index that lets a conversation have one turn at a time."""

turn_approvals = sa.Table(
    "turn_approvals",
    metadata,
    # Requests for approval, numbered in each turn as its pages see them.
    sa.Column("turn_id", uuid(), sa.ForeignKey("turns.id"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("asked_at", UtcTimestamp, nullable=False),
    sa.Column("answered_at", UtcTimestamp, nullable=True),
    sa.Column("choice", sa.String(16), nullable=False, server_default=""),
    # The command and its description; NULL once the turn has ended.
    sa.Column("request", sa.Text, nullable=True, info={SEALED: MESSAGES}),
)

chat_files = sa.Table(
    "chat_files",
    metadata,
    sa.Column("id", uuid(), primary_key=True),
    sa.Column("user_id", uuid(), sa.ForeignKey("users.id"), nullable=False, index=True),
    # The turn that the file goes with; NULL until then.
    sa.Column("turn_id", uuid(), sa.ForeignKey("turns.id"), nullable=True, index=True),
    sa.Column("bytes", sa.Integer, nullable=False),
    sa.Column("created_at", UtcTimestamp, nullable=False, index=True),
    # Its name, type and bytes.
    sa.Column("content", sa.Text, nullable=False, info={SEALED: MESSAGES}),
)

web_sessions = sa.Table(
    "web_sessions",
    metadata,
    # SHA-256 of the cookie: who reads the table can sign in as nobody.
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("user_id", uuid(), nullable=False, index=True),
    sa.Column("tokens", sa.Text, nullable=False, info={SEALED: MESSAGES}),
    sa.Column("created_at", UtcTimestamp, nullable=False),
    sa.Column("expires_at", UtcTimestamp, nullable=False, index=True),
)

user_requests = sa.Table(
    "user_requests",
    metadata,
    sa.Column("id", uuid(), primary_key=True),
    # No key of users: who subscribes has no row there before the agent has one.
    sa.Column("user_id", uuid(), nullable=False),
    # Texts and not enumerations of the database: words are added with time, and an older hermesops may meet one.
    sa.Column("kind", sa.String(16), nullable=False),
    sa.Column("client_key", sa.String(64), nullable=False),
    # The parameters; NULL a day after the end.
    sa.Column("body", sa.Text, nullable=True, info={SEALED: MESSAGES}),
    sa.Column("state", sa.String(16), nullable=False),
    # The outcome: its content, as an address of Stripe's; a code; words for the user.
    sa.Column("answer", sa.Text, nullable=True, info={SEALED: MESSAGES}),
    sa.Column("code", sa.String(32), nullable=False, server_default=""),
    sa.Column("detail", sa.String(500), nullable=False, server_default=""),
    sa.Column("operation_id", uuid(), sa.ForeignKey("operations.id"), nullable=True),
    sa.Column("created_at", UtcTimestamp, nullable=False),
    sa.Column("decided_at", UtcTimestamp, nullable=True),
    sa.Column("ended_at", UtcTimestamp, nullable=True, index=True),
    sa.Column("due_at", UtcTimestamp, nullable=True),
    sa.Column("tries", sa.Integer, nullable=False, server_default="0"),
    sa.UniqueConstraint("user_id", "client_key", name="uq_user_requests_client_key"),
    sa.Index("ix_user_requests_state_due_at", "state", "due_at"),
)

user_plans = sa.Table(
    "user_plans",
    metadata,
    # What Stripe charges a user, as the plan page shows it; workers read it anew when an event has come.
    sa.Column("user_id", uuid(), primary_key=True),
    sa.Column("statement", sa.Text, nullable=False, info={SEALED: MESSAGES}),
    sa.Column("read_at", UtcTimestamp, nullable=False),
)
