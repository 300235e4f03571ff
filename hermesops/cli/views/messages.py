"""Lines of messages, for people."""

from datetime import datetime
from typing import TYPE_CHECKING

from hermesops.cli.console import table_lines
from hermesops.views.users.messages import message

if TYPE_CHECKING:
    from hermesops.users.messaging.directory import MessageHistory

COLUMNS = ("message", "messenger", "state", "age", "tries", "user_id", "kind", "answers", "detail")
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
