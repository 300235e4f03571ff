"""Decides whom a message of a messenger concerns. Pure.

The messenger vouches for the author's account, and a one-time code links it to a user: nothing that is written in a
message says whose it is.
"""

import re
from dataclasses import dataclass, field

from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import InstanceId, UserId
from hermesops.model.messaging.message import Incoming, IncomingKind, LinkedAccount
from hermesops.users.messaging.files.kinds import refusal_of_download

_LINK = re.compile(r"^/(?:start|link)(?:@[A-Za-z0-9_]{1,64})?\s+(?P<code>[A-Za-z0-9]{16})\s*$")
_START = re.compile(r"^/start(?:@[A-Za-z0-9_]{1,64})?\s*$")
_UNLINK = re.compile(r"^/unlink(?:@[A-Za-z0-9_]{1,64})?\s*$")
_COMMAND = re.compile(r"^/(?:approve|deny|stop)(?:@[A-Za-z0-9_]{1,64})?(?: [a-z]{1,16})?\s*$")
"""Words that hermes-agent 0.19.0 takes while it is at a message."""


@dataclass(frozen=True)
class Agent:
    """The agent of a linked account's user."""

    instance_id: InstanceId
    status: InstanceStatus


@dataclass(frozen=True)
class Link:
    """Use a code up and link the author's account."""

    code: str = field(repr=False)


@dataclass(frozen=True)
class Unlink:
    """Delete the link of the author's account."""

    user_id: UserId


@dataclass(frozen=True)
class Mark:
    """Record that the author has blocked the bot, or does not any more."""

    is_blocked: bool


@dataclass(frozen=True)
class Queue:
    """Give the message to an agent.

    Attributes:
        is_command: Whether it is a word to an agent that is at work.
    """

    user_id: UserId
    instance_id: InstanceId
    is_command: bool = False


@dataclass(frozen=True)
class Fail:
    """Record that a message of ours failed that the messenger had taken.

    Attributes:
        number: Ours of it.
        code: The messenger's word for why.
    """

    number: int
    code: str


@dataclass(frozen=True)
class Reply:
    """Answer in the agent's place.

    Attributes:
        detail: A word for operators.
        is_once: Whether the author is told so at most once a day.
    """

    text: str
    detail: str
    is_once: bool = False


Route = Link | Unlink | Mark | Queue | Fail | Reply

STRANGER = (
    "This chat is not connected with an agent. To connect it, open your chat page and choose this messenger there."
)
NO_AGENT = "Your agent is not there yet. Your chat page shows its state."
SUSPENDED = "Your agent is suspended and takes no messages. Your chat page says why."
CONNECTED = "This chat is connected with your agent: write to it."
DISCONNECTED = "This chat is not connected with your agent any more."
INVALID_CODE = "This code is not valid any more. Your chat page gives you a new one."
NO_TEXT = "Only texts and files can be sent to your agent here."


def route(incoming: Incoming, account: LinkedAccount | None, agent: Agent | None) -> Route:
    """Where a report of a messenger goes.

    Args:
        account: The link of its author; ``None`` for a stranger.
        agent: Of the account's user; ``None`` where there is none.
    """
    if incoming.kind in {IncomingKind.BLOCKED, IncomingKind.UNBLOCKED}:
        return Mark(incoming.kind is IncomingKind.BLOCKED)
    if incoming.kind is IncomingKind.FAILED:
        number, _, code = incoming.text.partition(" ")
        return Fail(int(number) if number.isdecimal() else 0, code)
    if match := _LINK.match(incoming.text):
        return Link(match["code"])
    if account is None:
        return Reply(STRANGER, "stranger", is_once=True)
    if _UNLINK.match(incoming.text):
        return Unlink(account.user_id)
    if _START.match(incoming.text):
        return Reply(CONNECTED, "start")
    return _to_agent(incoming, account, agent)


def _to_agent(incoming: Incoming, account: LinkedAccount, agent: Agent | None) -> Route:
    if agent is None:
        return Reply(NO_AGENT, "no agent")
    if agent.status is InstanceStatus.SUSPENDED:
        return Reply(SUSPENDED, "suspended")
    if not incoming.text.strip() and not incoming.files:
        return Reply(NO_TEXT, "no text")
    if refusal := refusal_of_download(incoming.messenger, incoming.files):
        return Reply(refusal, "file too large")
    return Queue(account.user_id, agent.instance_id, is_command=_COMMAND.match(incoming.text) is not None)
