"""Lines of messages, for people."""

from datetime import datetime
from typing import TYPE_CHECKING

from hermesops.base.narration import counted
from hermesops.cli.console import table_lines
from hermesops.views.users.messages import message

if TYPE_CHECKING:
    from hermesops.model.messaging.figures import MessagingFigures
    from hermesops.users.messaging.directory import MessageHistory

COLUMNS = ("message", "messenger", "state", "age", "tries", "user_id", "kind", "answers", "detail")
_MESSENGER_COLUMNS = (
    *("messenger", "linked", "blocked", "delivered", "undelivered"),
    *("uncertain", "waiting", "refused"),
)
_FIELDS = ("messenger", "kind", "state", "detail", "user_id", "instance_id", "answers", "began", "sent", "due", "ended")


def history_lines(shown: "MessageHistory", now: datetime) -> list[str]:
    """A message: its fields, then the messages around it."""
    fields = message(shown.record, now)
    lines = [f"message     {shown.record.id}"]
    lines += [f"{name.replace('_', ' '):12}{fields[name]}" for name in _FIELDS if fields[name]]
    lines += [f"tries       {shown.record.tries}"]
    around = [record for record in (shown.answered, *shown.answers) if record]
    rows = [message(record, now) for record in around]
    return [*lines, "", *table_lines(COLUMNS, rows, "no message answers it, and it answers none")]


def status_lines(figures: "MessagingFigures") -> list[str]:
    """What alerts about messengers count: totals first, then each messenger, then agents without a socket."""
    blocked, undelivered, uncertain, waiting, refused = (
        sum(getattr(each, name) for each in figures.messengers)
        for name in ("blocked", "undelivered", "uncertain", "waiting", "refused")
    )
    ended = sorted(messenger for messenger, is_open in figures.sessions.items() if not is_open)
    return [
        f"sockets         {sum(figures.sockets.values())} of {counted(len(figures.sockets), 'running agent')}",
        f"not routed      {counted(figures.unrouted, 'account')}",
        f"held            {counted(figures.held, 'user')}",
        f"no answer       {counted(figures.unanswered, 'user')}, {figures.answered} answered",
        f"undelivered     {counted(undelivered, 'user')}",
        f"uncertain       {counted(uncertain, 'user')}",
        f"outside window  {counted(waiting, 'user')}",
        f"token refused   {counted(refused, 'user')}",
        f"blocked         {counted(blocked, 'user')} within a day",
        f"no session      {', '.join(ended) or 'none'}",
        "",
        *table_lines(_MESSENGER_COLUMNS, [vars(each) for each in figures.messengers], "no messenger is in use"),
        "",
        *table_lines(("instance",), [{"instance": each} for each in figures.without_socket], "no agent lacks a socket"),
    ]
