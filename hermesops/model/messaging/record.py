"""Messages as operators see them: where they are and since when, never a text, an account or a chat."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from hermesops.model.ids import InstanceId, UserId


class Direction(StrEnum):
    """The two ways of a message, as its id begins."""

    IN = "in"
    """From a user."""

    OUT = "out"
    """To a user: of an agent, or of the platform."""


@dataclass(frozen=True)
class MessageRecord:
    """A message, or a part of one to a user.

    Attributes:
        id: ``in-NUMBER`` or ``out-NUMBER``.
        state: One of ``IncomingState`` or ``OutgoingState``.
        user_id: Whose it is; ``None`` for a stranger's.
        tries: How often it was written to the agent's socket, or sent to the messenger.
        began_at: Its receipt.
        sent_at: When it was written to the agent's socket.
        due_at: Before then it is not sent again.
        answers: Id of the message that it answers; empty for none.
        part: From 0 on, of an answer in several messages.
        has_text: Whether its text is still kept, sealed.
    """

    id: str
    direction: Direction
    messenger: str
    kind: str
    state: str
    user_id: UserId | None
    instance_id: InstanceId | None
    tries: int
    began_at: datetime
    sent_at: datetime | None = None
    due_at: datetime | None = None
    ended_at: datetime | None = None
    detail: str = ""
    answers: str = ""
    part: int = 0
    has_text: bool = False


@dataclass(frozen=True)
class Receipt:
    """A user's message, by its time, its messenger and its present state alone."""

    at: datetime
    messenger: str
    state: str


@dataclass(frozen=True)
class MessengerCount:
    """Accounts and open messages of a messenger.

    Attributes:
        linked: Accounts of users; ``blocked`` have blocked the bot.
        waiting: Messages of users that have not ended.
        undelivered: Parts of answers that the messenger does not have yet.
        oldest_at: Of the oldest of both; ``None`` for none.
    """

    linked: int = 0
    blocked: int = 0
    waiting: int = 0
    undelivered: int = 0
    oldest_at: datetime | None = None
