"""Bubbles of chats whose bots format texts by marks."""

from collections.abc import Callable, Mapping

from hermesops.localcloud.vendors.chat_logs import ChatLog
from hermesops.localcloud.vendors.phone.chats import Bubble, Button
from hermesops.localcloud.vendors.phone.marked_spans import MARKS, parse
from hermesops.localcloud.vendors.telegram_chats import Entry


def bubbles(log: ChatLog, marks: Mapping[str, str] = MARKS, plain: Callable[[str], str] = str) -> list[Bubble]:
    """The messages of a chat; a person's own are shown as they were written."""
    return [_bubble(entry, marks, plain) for entry in log.entries]


def _bubble(entry: Entry, marks: Mapping[str, str], plain: Callable[[str], str]) -> Bubble:
    text, spans = parse(entry.text, marks, plain) if entry.is_of_bot else (entry.text, [])
    buttons = [[Button(str(each["text"]), str(each["callback_data"])) for each in row] for row in entry.keyboard]
    return Bubble(entry.id, entry.is_of_bot, text, spans, buttons)
