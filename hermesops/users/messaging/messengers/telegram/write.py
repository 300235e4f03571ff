"""Writes styled text as Telegram takes it: plain text, and entities that say how its stretches look. Pure.

Source: Telegram Bot API, "MessageEntity", ``sendMessage``: offsets and lengths are in code units of UTF-16, blank lines
around a text are cut off, and no more than 100 entities of a message count.
"""

import json
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from hermesops.model.messaging.messenger import LIMITS, Messenger
from hermesops.users.messaging.texts.styled_text import Style, StyledText
from hermesops.wire import strict_json

MOST_ENTITIES = 100

_LARGEST = 256 << 10
_LIMIT = LIMITS[Messenger.TELEGRAM]
_KINDS: Mapping[str, Callable[[Style], bool | str | None]] = {
    "bold": lambda style: style.bold,
    "italic": lambda style: style.italic,
    "strikethrough": lambda style: style.strike,
    "code": lambda style: style.code,
    "pre": lambda style: style.block,
    "text_link": lambda style: style.link or None,
}
_VALUES = {"pre": "language", "text_link": "url"}


def measure(text: StyledText) -> int:
    """The length of a text: styles take nothing."""
    return _LIMIT.length(text.text)


def write(text: StyledText) -> str:
    """A part as its row keeps it: an object of JSON with ``text`` and ``entities``."""
    shown = text.stripped()
    entities = sorted(_entities(shown), key=lambda entity: (entity["offset"], -entity["length"]))
    return json.dumps({"text": shown.text, "entities": entities[:MOST_ENTITIES]}, ensure_ascii=False)


def parse(part: str) -> Mapping[str, Any]:
    """Parameters of ``sendMessage`` for a part; one that this function's version did not write is plain text."""
    try:
        content = strict_json.parse_object(part, largest=_LARGEST)
    except strict_json.MalformedJSONError:
        return {"text": part}
    text, entities = content.get("text"), content.get("entities")
    if set(content) != {"text", "entities"} or not isinstance(text, str) or not isinstance(entities, list):
        return {"text": part}
    return {"text": text, "entities": entities} if entities else {"text": text}


def _entities(text: StyledText) -> Iterator[dict[str, Any]]:
    units = _Units(text.text)
    for kind, attribute in _KINDS.items():
        for span in text.spans(attribute):
            offset = units.before(span.start)
            entity = {"type": kind, "offset": offset, "length": units.before(span.end) - offset}
            yield {**entity, _VALUES[kind]: span.value} if kind in _VALUES and span.value else entity


class _Units:
    """Code units of UTF-16 before each code point of a text."""

    def __init__(self, text: str) -> None:
        self._wide = [at for at, point in enumerate(text) if ord(point) > 0xFFFF]  # noqa: PLR2004 - the last of one unit

    def before(self, at: int) -> int:
        return at + bisect_left(self._wide, at)
