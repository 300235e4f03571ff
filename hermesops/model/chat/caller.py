"""Agents of others that a user lets call their agent by the A2A protocol."""

import re
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from hashlib import sha256

from hermesops.model.ids import InstanceId, UserId

CONTEXT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
"""Names of contexts and messages that callers choose."""

MOST_TRIES = 6
"""Tries of a notification; then it is given up."""

_PREFIX = "a2a"
_DIGITS = 32


@dataclass(frozen=True)
class Caller:
    """An agent that may call a user's agent.

    Attributes:
        name: The user's name of it.
        push_hosts: Hosts that it may have notified of its tasks.
        may_approve: Whether it may answer requests for approval of its own tasks.
        used_at: When its key was used last, to some minutes; ``None`` for never.
        key_hash: SHA-256 of its key, in hexadecimal; it signs what the caller is notified of.
    """

    id: str
    user_id: UserId
    instance_id: InstanceId
    name: str = field(repr=False)
    push_hosts: tuple[str, ...] = field(repr=False)
    may_approve: bool
    created_at: datetime
    used_at: datetime | None = None
    key_hash: str = field(default="", repr=False)


@dataclass(frozen=True)
class CalledTask:
    """What makes a turn a task: the calling agent, and its names of the conversation and of the message.

    Attributes:
        message_id: Empty for a task of before it was kept.
    """

    caller_id: str
    context: str
    message_id: str = ""


class CallerState(StrEnum):
    """States of a caller's key."""

    LIVE = "live"
    REVOKED = "revoked"
    ENDED = "ended"
    """Its agent is terminated."""


@dataclass(frozen=True)
class CallerRecord:
    """A caller as operators see it: without its name, its hosts and its key.

    Attributes:
        used_at: When its key was used last, to some minutes; ``None`` for never.
        tasks: Tasks that it began within 90 days, with ``open_tasks`` and ``failed_tasks`` among them.
        undelivered: Notifications that wait after a failed try, or were given up lately.
    """

    id: str
    user_id: UserId
    instance_id: InstanceId
    state: CallerState
    may_approve: bool
    created_at: datetime
    used_at: datetime | None
    revoked_at: datetime | None
    tasks: int
    open_tasks: int
    failed_tasks: int
    undelivered: int


@dataclass(frozen=True)
class NotifiedCallers:
    """Callers whose notifications were delivered lately, and callers whose were not."""

    delivered: int
    undelivered: int


def conversation_of_task(task: CalledTask) -> str:
    """The user's conversation that holds a caller's context. No other caller's context leads to it. Pure."""
    return f"{_PREFIX}-{_digest(task.caller_id, task.context)}"


def client_key_of(caller_id: str, message_id: str) -> str:
    """The key of the turn that a caller's message begins: sent again, it begins no second one. Pure."""
    return f"{_PREFIX}-{_digest(caller_id, message_id)}"


def _digest(caller_id: str, name: str) -> str:
    return sha256(f"{caller_id}/{name}".encode()).hexdigest()[:_DIGITS]
