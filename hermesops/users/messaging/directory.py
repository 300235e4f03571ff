"""Messages as operators see them, and answers that they have sent again."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hermesops.errors import Hint, RefusedError, UsageError, require_reason
from hermesops.model.fleet.user import parse_user
from hermesops.model.ids import UserId
from hermesops.model.messaging.figures import MessagingFigures
from hermesops.model.messaging.message import IncomingState, OutgoingState
from hermesops.model.messaging.messenger import Messenger
from hermesops.model.messaging.record import Direction, MessageRecord, MessengerCount
from hermesops.model.unknown_name import unknown_name
from hermesops.store.registry import Registry
from hermesops.store.registry.repositories.messages import RETRIED, UNCERTAIN_TWICE

STATES = tuple(dict.fromkeys([*map(str, IncomingState), *map(str, OutgoingState)]))
"""States of messages of both ways."""

_ID = re.compile(r"(in|out)-([0-9]{1,18})")


@dataclass(frozen=True)
class MessageHistory:
    """A message with those around it.

    Attributes:
        answered: The user's message that it answers; ``None`` where it answers none.
        answers: Parts that answer it, in their order.
    """

    record: MessageRecord
    answered: MessageRecord | None = None
    answers: Sequence[MessageRecord] = ()


@dataclass(frozen=True)
class MessageDirectory:
    """Messages of users and agents as operators list them, without their texts."""

    registry: Registry

    def list(self, *, user: str = "", messenger: str = "", state: str = "", limit: int = 50) -> Sequence[MessageRecord]:
        """Messages both ways, the newest first.

        Args:
            user: Only of this user, by id or alias.
            messenger: Only of this messenger.
            state: Only in this state.

        Raises:
            UsageError: There is no such user.
        """
        user_id = self._user_id(user) if user else None
        return self.registry.messages.list(user_id=user_id, messenger=messenger, state=state, limit=limit)

    def get(self, text: str) -> MessageHistory:
        """A message and its history.

        Raises:
            UsageError: There is no such message.
        """
        record = self._record(text)
        if record.direction is Direction.IN:
            return MessageHistory(record, answers=self.registry.messages.answers_of(_number(record.id)))
        messages = self.registry.messages
        answered = messages.find(Direction.IN, _number(record.answers)) if record.answers else None
        return MessageHistory(record, answered)

    def retry(self, text: str, *, reason: str) -> MessageRecord:
        """Have an answer sent again that the messenger refused, or may not have.

        Raises:
            UsageError: There is no such message, or no reason.
            RefusedError: It is a user's own, was delivered, waits by itself, or its text is not kept any more.
        """
        require_reason(reason, "message", "retry", text)
        record = self._record(text)
        if why := _refusal(record):
            raise RefusedError(f"message {record.id} {why}", hint=Hint(("message", "show", record.id)))
        if self.registry.messages.blocked(record):
            raise RefusedError(f"message {record.id}: its user has blocked the bot, which nobody but the user ends")
        self.registry.messages.retry(_number(record.id), why=reason)
        return self._record(record.id)

    def counts(self) -> Mapping[str, MessengerCount]:
        """Accounts and open messages, by messenger."""
        return self.registry.messages.counts()

    def figures(self) -> MessagingFigures:
        """Users whose messages or answers wait, and agents with and without a socket, as alerts count them."""
        return self.registry.message_figures.read()

    def _record(self, text: str) -> MessageRecord:
        matched = _ID.fullmatch(text.strip())
        if matched is None:
            raise UsageError(
                "MESSAGE is in-NUMBER or out-NUMBER", hint=Hint(("message", "list"), "shows them"), field="message"
            )
        record = self.registry.messages.find(Direction(matched[1]), int(matched[2]))
        if record is None:
            raise unknown_name("message", text)
        return record

    def _user_id(self, text: str) -> UserId:
        named = parse_user(text)
        return self.registry.users.resolve(text).id if named.alias else named.id


def parse_messenger(text: str) -> str:
    """A messenger's name as an operator typed it.

    Raises:
        UsageError: There is no such messenger.
    """
    names = [messenger.value for messenger in Messenger]
    if text not in names:
        raise UsageError(f"no messenger {text!r}: {', '.join(names)}", hint=Hint(("messenger", "list")))
    return text


def parse_state(text: str) -> str:
    """A state of messages as an operator typed it.

    Raises:
        UsageError: There is no such state.
    """
    if text not in STATES:
        raise UsageError(
            f"no state {text!r}: one of {', '.join(STATES)}", hint=Hint(("message", "list")), field="state"
        )
    return text


def _refusal(record: MessageRecord) -> str:
    """Why a message is not sent again; empty where it may be. Pure."""
    if record.direction is Direction.IN:
        return "is a user's own: it goes to the agent again by itself"
    is_twice = record.state == OutgoingState.SENT and record.detail.startswith(UNCERTAIN_TWICE)
    if record.state not in RETRIED and not is_twice:
        return "was delivered" if record.state == OutgoingState.SENT else "is sent by itself"
    return "" if record.has_text else "has ended more than a day ago, and its text is not kept any more"


def _number(id_: str) -> int:
    return int(id_.partition("-")[2])
