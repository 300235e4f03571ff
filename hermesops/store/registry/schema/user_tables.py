"""Tables of the users' half: turns of the web chat, files, requests, plans, usage, settings, sessions, connections.

The users' API writes them, but for decisions about requests, plans, metered usage and copies of settings, which workers
write.

A second key ring, ``messages``, seals what users say: the process that the internet reaches needs no other key.
"""

import sqlalchemy as sa

from hermesops.store.registry.schema.columns import UtcTimestamp, uuid
from hermesops.store.registry.schema.tables import SEALED, metadata

__all__ = [
    "LIVE_CONNECTION",
    "MESSAGES",
    "OPEN_TURN",
    "api_figures",
    "chat_files",
    "mcp_access",
    "metadata",
    "metered_usage",
    "settings_copies",
    "turn_approvals",
    "turns",
    "user_connections",
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

metered_usage = sa.Table(
    "metered_usage",
    metadata,
    # Each row is one event for a meter at Stripe, which refuses the identifier a second time.
    sa.Column("identifier", sa.String(100), primary_key=True),
    # Texts and not enumerations of the database: words are added with time, and an older hermesops may meet one.
    sa.Column("meter", sa.String(32), nullable=False),
    # No keys of instances and users: what was used is billed after their rows are gone, too.
    sa.Column("instance_id", uuid(), nullable=False),
    sa.Column("user_id", uuid(), nullable=False),
    sa.Column("subscription_id", sa.String(255), nullable=False),
    sa.Column("day", sa.Date, nullable=False),
    sa.Column("sequence", sa.Integer, nullable=False),
    sa.Column("quantity", sa.BigInteger, nullable=False),
    # A whole minute, of which Stripe's sum says whether the event arrived.
    sa.Column("measured_at", UtcTimestamp, nullable=False, index=True),
    sa.Column("entered_at", UtcTimestamp, nullable=False),
    sa.Column("state", sa.String(16), nullable=False, index=True),
    sa.Column("customer", sa.String(255), nullable=False, server_default=""),
    sa.Column("first_tried_at", UtcTimestamp, nullable=True),
    sa.Column("ended_at", UtcTimestamp, nullable=True, index=True),
    sa.Column("detail", sa.String(500), nullable=False, server_default=""),
    sa.UniqueConstraint("user_id", "meter", "measured_at", name="uq_metered_usage_minute"),
    sa.Index("ix_metered_usage_day", "day"),
)

settings_copies = sa.Table(
    "settings_copies",
    metadata,
    # What users may set of their agents, for the API, which has no key to the settings themselves.
    sa.Column("instance_id", uuid(), sa.ForeignKey("hermes_instances.id"), primary_key=True),
    sa.Column("settings", sa.Text, nullable=False, info={SEALED: MESSAGES}),
    # Of the settings that were copied; another one in instance_details means that they were changed since.
    sa.Column("revision", sa.Integer, nullable=False),
    sa.Column("copied_at", UtcTimestamp, nullable=False),
)

api_figures = sa.Table(
    "api_figures",
    metadata,
    # Each process of the API writes its row every few seconds: counts of the last minutes, and nothing of a user's.
    sa.Column("process", sa.String(64), primary_key=True),
    sa.Column("written_at", UtcTimestamp, nullable=False),
    sa.Column("users", sa.Integer, nullable=False),
    sa.Column("slow_users", sa.Integer, nullable=False),
    sa.Column("webhooks_taken", sa.Integer, nullable=False),
    sa.Column("webhooks_refused", sa.Integer, nullable=False),
)

user_connections = sa.Table(
    "user_connections",
    metadata,
    sa.Column("id", uuid(), primary_key=True),
    sa.Column("user_id", uuid(), sa.ForeignKey("users.id"), nullable=False, index=True),
    sa.Column("instance_id", uuid(), sa.ForeignKey("hermes_instances.id"), nullable=False, index=True),
    sa.Column("service", sa.String(64), nullable=False),
    # Text and not an enumeration of the database: words are added with time, and an older hermesops may meet one.
    sa.Column("state", sa.String(16), nullable=False, index=True),
    # The vendor's id of the connected account, which opens nothing without the project's key; empty until it gave one.
    sa.Column("account", sa.String(128), nullable=False, server_default=""),
    # SHA-256 of the state in the link's callback; NULL once it was used.
    sa.Column("callback_hash", sa.String(64), nullable=True, unique=True),
    # Digest of the page session that asked for the link; empty for a client with a bearer token.
    sa.Column("session", sa.String(64), nullable=False, server_default=""),
    sa.Column("detail", sa.String(200), nullable=False, server_default=""),
    sa.Column("created_at", UtcTimestamp, nullable=False),
    sa.Column("changed_at", UtcTimestamp, nullable=False),
    sa.Column("link_expires_at", UtcTimestamp, nullable=False),
    sa.Column("linked_at", UtcTimestamp, nullable=True),
    sa.Column("checked_at", UtcTimestamp, nullable=True),
    # When nothing was left at the vendor of a connection that has ended.
    sa.Column("cleaned_at", UtcTimestamp, nullable=True),
)

LIVE_CONNECTION = "state IN ('linked', 'expired')"
"""Condition of the partial index that lets an agent have one connection to a service at a time."""

mcp_access = sa.Table(
    "mcp_access",
    metadata,
    sa.Column("instance_id", uuid(), sa.ForeignKey("hermes_instances.id"), primary_key=True),
    # SHA-256 of the agent's token: who reads the table can act for no agent.
    sa.Column("token_hash", sa.String(64), nullable=False, unique=True),
    sa.Column("created_at", UtcTimestamp, nullable=False),
    # The agent's session at the vendor: its id, its address, and a digest of the accounts that it is limited to.
    sa.Column("vendor_session", sa.String(128), nullable=False, server_default=""),
    sa.Column("vendor_url", sa.String(1024), nullable=False, server_default=""),
    sa.Column("accounts_digest", sa.String(64), nullable=False, server_default=""),
)
