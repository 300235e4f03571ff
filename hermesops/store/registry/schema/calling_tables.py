"""Tables of agents that call users' agents: their keys, their tasks, and addresses that are notified of a task's state.

The users' API writes them. A worker records in the audit log which keys were made and revoked.
"""

import sqlalchemy as sa

from hermesops.store.registry.schema.columns import UtcTimestamp, uuid
from hermesops.store.registry.schema.operator_tables import metadata
from hermesops.store.registry.schema.tables import SEALED
from hermesops.store.registry.schema.user_tables import MESSAGES

__all__ = ["agent_callers", "called_tasks", "metadata", "task_pushes"]

agent_callers = sa.Table(
    "agent_callers",
    metadata,
    sa.Column("id", uuid(), primary_key=True),
    sa.Column("user_id", uuid(), sa.ForeignKey("users.id"), nullable=False),
    # The agent that is called; the key ends with it.
    sa.Column("instance_id", uuid(), sa.ForeignKey("hermes_instances.id"), nullable=False, index=True),
    sa.Column("client_key", sa.String(64), nullable=False),
    # SHA-256 of the key: who reads the table can call no agent.
    sa.Column("key_hash", sa.String(64), nullable=False, unique=True),
    # The name that the user gave the caller, and hosts that it may have notified.
    sa.Column("content", sa.Text, nullable=False, info={SEALED: MESSAGES}),
    sa.Column("may_approve", sa.Boolean(name="may_approve"), nullable=False),
    sa.Column("created_at", UtcTimestamp, nullable=False),
    sa.Column("used_at", UtcTimestamp, nullable=True),
    sa.Column("revoked_at", UtcTimestamp, nullable=True),
    # The last change that the audit log has: nothing, "made" or "revoked".
    sa.Column("recorded", sa.String(16), nullable=False, server_default=""),
    sa.UniqueConstraint("user_id", "client_key", name="uq_agent_callers_client_key"),
)

called_tasks = sa.Table(
    "called_tasks",
    metadata,
    # A task is a turn of the user's that an agent began.
    sa.Column("turn_id", uuid(), sa.ForeignKey("turns.id"), primary_key=True),
    sa.Column("caller_id", uuid(), sa.ForeignKey("agent_callers.id"), nullable=False, index=True),
    # The caller's name of the conversation, and of the message that began the task; empty before revision 0011.
    sa.Column("context", sa.String(128), nullable=False),
    sa.Column("message_id", sa.String(128), nullable=False, server_default=""),
)

task_pushes = sa.Table(
    "task_pushes",
    metadata,
    sa.Column("turn_id", uuid(), sa.ForeignKey("turns.id"), primary_key=True),
    sa.Column("id", sa.String(64), primary_key=True),
    # The address, and what proves to it who notifies.
    sa.Column("content", sa.Text, nullable=False, info={SEALED: MESSAGES}),
    sa.Column("created_at", UtcTimestamp, nullable=False),
    # The last state that the address was notified of; empty for none.
    sa.Column("sent", sa.String(32), nullable=False, server_default=""),
    sa.Column("tries", sa.Integer, nullable=False, server_default="0"),
    sa.Column("due_at", UtcTimestamp, nullable=False, index=True),
    # When nothing more is sent.
    sa.Column("ended_at", UtcTimestamp, nullable=True),
)
