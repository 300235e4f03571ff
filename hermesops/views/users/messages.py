"""JSON objects of messages and messengers, for every face: no text, no account, no chat of anybody."""

from datetime import datetime
from typing import TYPE_CHECKING

from hermesops.views.timestamps import Age, timestamp

if TYPE_CHECKING:
    from hermesops.model.messaging.figures import MessagingFigures
    from hermesops.model.messaging.record import MessageRecord, MessengerCount
    from hermesops.users.messaging.directory import MessageHistory


def message(record: "MessageRecord", now: datetime) -> dict[str, object]:
    """A message where it is; its age is of its receipt."""
    return {
        "message": record.id,
        "direction": record.direction.value,
        "messenger": record.messenger,
        "kind": record.kind,
        "state": record.state,
        "age": _age(record.began_at, now),
        "tries": record.tries,
        "user_id": record.user_id,
        "instance_id": record.instance_id,
        "answers": record.answers or None,
        "part": record.part,
        "detail": record.detail or None,
        "began": timestamp(record.began_at),
        "sent": timestamp(record.sent_at),
        "due": timestamp(record.due_at),
        "ended": timestamp(record.ended_at),
        "text_kept": record.has_text,
    }


def history(shown: "MessageHistory", now: datetime) -> dict[str, object]:
    """A message, the one that it answers and those that answer it."""
    return {
        **message(shown.record, now),
        "answered": message(shown.answered, now) if shown.answered else None,
        "answered_by": [message(record, now) for record in shown.answers],
    }


def messenger(name: str, bot: str, count: "MessengerCount", now: datetime) -> dict[str, object]:
    """A messenger with its bot, linked accounts and open messages."""
    return {
        "messenger": name,
        "bot": bot or None,
        "linked": count.linked,
        "blocked": count.blocked,
        "waiting": count.waiting,
        "undelivered": count.undelivered,
        "oldest": _age(count.oldest_at, now),
    }


def status(figures: "MessagingFigures") -> dict[str, object]:
    """What alerts about messengers count: users by state, sockets, and ids of agents without one."""
    return {
        **{name: getattr(figures, name) for name in ("unrouted", "held", "unanswered", "answered")},
        "sockets": sum(figures.sockets.values()),
        "agents": len(figures.sockets),
        "without_socket": list(figures.without_socket),
        "sessions": dict(figures.sessions),
        "messengers": [vars(each) for each in figures.messengers],
    }


def _age(when: datetime | None, now: datetime) -> Age | None:
    return Age(int((now - when).total_seconds())) if when else None
