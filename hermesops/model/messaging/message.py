"""Messages of users in messengers, and what goes out to them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from hermesops.model.ids import InstanceId, UserId
from hermesops.model.messaging.files import AgentFile, UserFile
from hermesops.model.messaging.messenger import Messenger, chat_name


class IncomingKind(StrEnum):
    """The kinds of what a messenger reports."""

    MESSAGE = "message"
    """A text, or a button of an agent's request."""

    COMMAND = "command"
    """A word to an agent that is at work, as ``/approve``: it waits for nothing, and its effect is its answer."""

    BLOCKED = "blocked"
    UNBLOCKED = "unblocked"

    FAILED = "failed"
    """A message to the user that the messenger took was not delivered."""


class IncomingState(StrEnum):
    """The states of an incoming message."""

    RECEIVED = "received"
    """It is a row; nobody has looked whom it concerns."""

    QUEUED = "queued"
    """It is for an agent, and waits for its turn in its chat or for the agent's socket."""

    SENT = "sent"
    """It was written to the agent's socket; whether the agent has it is not known yet."""

    TAKEN = "taken"
    """The agent has it in memory."""

    ANSWERED = "answered"
    HANDLED = "handled"
    """It was for the platform, such as a code that links an account."""

    DEAD = "dead"
    """No agent answered it in time; the user was told."""


CLOSED = frozenset({IncomingState.ANSWERED, IncomingState.HANDLED, IncomingState.DEAD})
"""States in which a message has ended: its text is dropped a day later."""

UNDER_WAY = frozenset({IncomingState.SENT, IncomingState.TAKEN})
"""States in which an agent may be at a message: a chat has one at a time."""

NOT_TAKEN, NO_ANSWER = "not taken", "no answer"
"""Details of dead messages that were written to their agent's socket."""

TOKEN_REFUSED = "token refused"  # noqa: S105 - a detail
"""Beginning of the detail of a part that waits until its messenger takes the bot's token."""


class OutgoingState(StrEnum):
    """The states of a message, or a part of one, to a user."""

    QUEUED = "queued"
    SENDING = "sending"
    """The messenger may get it; recorded before it is sent."""

    SENT = "sent"
    WAITING = "waiting"
    """The messenger takes it after the user's next message: WhatsApp, a day after the last one."""

    UNCERTAIN = "uncertain"
    """No answer came; it is sent again once."""

    REFUSED = "refused"


@dataclass(frozen=True)
class Update:
    """What a messenger reported, as its reader understood it.

    Attributes:
        vendor_id: The messenger's id of this report, the same when it is repeated.
        account: The messenger's id of the author, which the messenger vouches for.
        vendor_chat: The messenger's id of the chat.
        text: What the user wrote; for a message that failed, ``NUMBER CODE``: its number here, and why; else empty.
        display: The author's name as the messenger shows it.
        address: Where the bot writes to, if that is not the chat's id; empty where it is.
        written_at: When the user wrote it, where the bot may answer for a limited time alone.
        files: At most ``files.MOST``.
    """

    messenger: Messenger
    vendor_id: str
    kind: IncomingKind
    account: str
    vendor_chat: str
    text: str = field(default="", repr=False)
    display: str = field(default="", repr=False)
    address: str = field(default="", repr=False)
    written_at: datetime | None = None
    files: tuple[UserFile, ...] = ()


@dataclass(frozen=True)
class Incoming:
    """An incoming message as its row has it.

    Attributes:
        id: Grows with time.
        text: Empty once it was dropped, or where its key is gone.
        user_id: Whose it is; ``None`` until it is known.
        fence: Number of the socket that it was written to; 0 for none.
        tries: How often it was written to a socket.
        files: None once the text was dropped.
    """

    id: int
    messenger: Messenger
    vendor_id: str
    kind: IncomingKind
    account: str
    vendor_chat: str
    text: str = field(repr=False)
    display: str = field(repr=False)
    state: IncomingState
    user_id: UserId | None
    instance_id: InstanceId | None
    fence: int
    tries: int
    received_at: datetime
    sent_at: datetime | None
    files: tuple[UserFile, ...] = ()

    @property
    def chat(self) -> str:
        """The chat's name towards the agent."""
        return chat_name(self.messenger, self.vendor_chat)

    @property
    def words(self) -> str:
        """The text by which the message is known in its agent's transcript; files alone have one of the platform's."""
        text = self.text.strip()
        return text or (f"[Message {self.id} has files and no text.]" if self.files else "")


@dataclass(frozen=True)
class Outgoing:
    """A message, or a part of one, to a user.

    Attributes:
        id: Grows with time.
        text: As its messenger's bot sends it; empty once it was dropped.
        part: From 0 on, of one answer that was split.
        vendor_id: The messenger's id of the message that it became.
        tries: How often it was sent.
        address: Where the bot writes to, if that is not the chat's id; empty where it is, or the key is gone.
        is_open: Whether the messenger takes messages of this chat now, as far as is known here.
        looked_at: When it was read; when it was sent, for one that was.
        file_id: Of the file that it is, whose name is its text; empty for a text.
        file: With its content, while it is being sent.
    """

    id: int
    messenger: Messenger
    vendor_chat: str
    text: str = field(repr=False)
    part: int
    state: OutgoingState
    vendor_id: str
    tries: int
    not_before: datetime | None
    address: str = field(default="", repr=False)
    is_open: bool = True
    looked_at: datetime | None = None
    file_id: str = ""
    file: AgentFile | None = field(default=None, repr=False)


@dataclass(frozen=True)
class LinkedAccount:
    """A messenger's account that is linked to a user.

    Attributes:
        account: The messenger's id of it.
        vendor_chat: The chat with the bot.
        display: Its name as the messenger shows it.
        blocked_at: Since when the user has blocked the bot.
    """

    messenger: Messenger
    account: str
    vendor_chat: str
    user_id: UserId
    linked_at: datetime
    display: str = field(default="", repr=False)
    blocked_at: datetime | None = None


def body_of(update: Update) -> Mapping[str, Any]:
    """What is sealed of an update. Pure."""
    files = [file.document() for file in update.files]
    return {"text": update.text, "display": update.display, **({"files": files} if files else {})}
