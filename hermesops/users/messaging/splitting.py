"""Splits Markdown into parts that a messenger takes. Pure: joined again, the parts are the text.

A part ends where a paragraph, a line, a word or at least a grapheme ends. A fence of code that is cut is closed at the
end of a part and opened again, with its language, at the beginning of the next.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from hermesops.model.messaging.messenger import TextLimit

_FENCE = re.compile(r"^(?P<mark>`{3,}|~{3,})(?P<language>[^`\n]{0,40})$", re.MULTILINE)
_JOINER, _VARIANTS = "\u200d", range(0xFE00, 0xFE10)
_SKIN = range(0x1F3FB, 0x1F400)
_FLAGS = range(0x1F1E6, 0x1F200)
_BREAKS = ("\n\n", "\n", " ")
_EARLIEST = 0.5
"""Share of a part before which no break is looked for: shorter parts would be many."""


@dataclass(frozen=True)
class Part:
    """A part of a text.

    Attributes:
        source: The stretch of the text that it is.
        prefix: Opens a fence that was cut; suffix: closes one.
    """

    source: str
    prefix: str = ""
    suffix: str = ""

    @property
    def text(self) -> str:
        """The part as it is sent."""
        return f"{self.prefix}{self.source}{self.suffix}"


def split(text: str, limit: TextLimit) -> tuple[Part, ...]:
    """Split a text into parts, each at most ``limit`` with what opens and closes fences; none for an empty text."""
    return tuple(_parts(text, limit))


def _parts(text: str, limit: TextLimit) -> Iterator[Part]:
    fence = ""
    while text:
        prefix = f"{fence}\n" if fence else ""
        if limit.length(prefix) + limit.length(text) <= limit.most:
            yield Part(text, prefix)
            return
        source = _longest(text, prefix, limit)
        fence_after = _fence_at_end(prefix + source)
        suffix = _closing(source, fence_after)
        yield Part(source, prefix, suffix)
        text, fence = text[len(source) :], fence_after


def _longest(text: str, prefix: str, limit: TextLimit) -> str:
    """The longest beginning of a text that fits and ends well."""
    reserve = limit.length(prefix) + _LONGEST_CLOSING
    room = text[: _end_of(text, max(1, limit.most - reserve), limit)]
    for mark in _BREAKS:
        at = room.rfind(mark)
        if at >= len(room) * _EARLIEST:
            return room[: at + len(mark)]
    return room


_LONGEST_CLOSING = 48
"""Units that the closing of a fence may take: a line's end, and as many marks as the fence has."""


def _end_of(text: str, most: int, limit: TextLimit) -> int:
    """Index at which the largest number of whole graphemes within ``most`` units ends, at least one of them."""
    end, used = 0, 0
    for grapheme in _graphemes(text):
        used += limit.length(grapheme)
        if used > most and end:
            break
        end += len(grapheme)
        if used >= most:
            break
    return end


def _graphemes(text: str) -> Iterator[str]:
    """Stretches of a text that are seen as one character, of at most 32 code points: longer ones are made up."""
    start = 0
    for at in range(1, len(text) + 1):
        if at == len(text) or at - start >= _LONGEST_GRAPHEME or not _is_joined(text, at, start):
            yield text[start:at]
            start = at


_LONGEST_GRAPHEME = 32


def _is_joined(text: str, at: int, start: int) -> bool:
    """Whether a code point belongs to the grapheme that begins at ``start``."""
    point, before = text[at], text[at - 1]
    if (before, point) == ("\r", "\n") or _JOINER in {before, point}:
        return True
    if unicodedata.combining(point) or unicodedata.category(point) in {"Mn", "Mc", "Me"}:
        return True
    if ord(point) in _VARIANTS or ord(point) in _SKIN:
        return True
    return ord(point) in _FLAGS and ord(before) in _FLAGS and at - start == 1


def _fence_at_end(text: str) -> str:
    """The line that opened the fence in which a text ends; empty where it ends in none."""
    opened = ""
    for match in _FENCE.finditer(text):
        if not opened:
            opened = match[0]
        elif _closes(match, opened):
            opened = ""
    return opened if len(opened) < _LONGEST_CLOSING - 1 else ""


def _closes(match: re.Match[str], opened: str) -> bool:
    mark = re.match(r"`+|~+", opened)
    return mark is not None and match["mark"].startswith(mark[0]) and not match["language"].strip()


def _closing(source: str, fence: str) -> str:
    if not fence:
        return ""
    mark = re.match(r"`+|~+", fence)
    return f"{'' if source.endswith(chr(10)) else chr(10)}{mark[0] if mark else ''}"
