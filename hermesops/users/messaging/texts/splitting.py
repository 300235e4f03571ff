"""Splits styled text into parts that a messenger takes. Pure: joined again, the parts are the text.

A part ends where a paragraph, a line, a word or at least a grapheme ends, and within a styled stretch only where it is
longer than half a part. A stretch that is cut, as a block of code, has its style on both sides.
"""

import unicodedata
from collections.abc import Callable, Iterator

from hermesops.model.messaging.messenger import TextLimit
from hermesops.users.messaging.texts.styled_text import PLAIN, StyledText

Measure = Callable[[StyledText], int]
"""The length of a text as a messenger counts it, with the marks that are written for styles."""

_JOINER, _VARIANTS = "\u200d", range(0xFE00, 0xFE10)
_SKIN = range(0x1F3FB, 0x1F400)
_FLAGS = range(0x1F1E6, 0x1F200)
_BREAKS = ("\n\n", "\n", " ")
_EARLIEST = 0.5
"""Share of a part before which no break is looked for: shorter parts would be many."""

_SHRINKS = 0.75
_MOST_LOOKS = 64
"""Ends of words that are looked at for one outside of styled stretches."""


def split(text: StyledText, limit: TextLimit, measure: Measure) -> tuple[StyledText, ...]:
    """Split a text into parts, each at most ``limit`` by ``measure``; none for an empty text."""
    return tuple(_parts(text, limit, measure))


def _parts(rest: StyledText, limit: TextLimit, measure: Measure) -> Iterator[StyledText]:
    while rest.runs:
        part, rest = _first(rest, limit, measure)
        yield part


def _first(text: StyledText, limit: TextLimit, measure: Measure) -> tuple[StyledText, StyledText]:
    """The longest beginning of a text that fits and ends well, and what follows it."""
    whole, room = text.text, limit.most
    if limit.length(whole) <= room and measure(text) <= limit.most:
        return text, StyledText()
    while True:
        end = _end_of(whole, room, limit)
        at = _break_before(text.cut(end)[0], is_end=end == len(whole))
        part, rest = text.cut(end if at < len(whole) and _is_joined(whole, at, at - 1) else at)
        if measure(part) <= limit.most or room <= 1:
            return part, rest
        room = max(1, int(room * _SHRINKS))


def _break_before(beginning: StyledText, *, is_end: bool) -> int:
    """Index at which a part ends, at most the end of a beginning that fits."""
    text = beginning.text
    if is_end:
        return len(text)
    for mark in _BREAKS:
        at = len(text)
        for _ in range(_MOST_LOOKS):
            at = text.rfind(mark, int(len(text) * _EARLIEST), at)
            if at < 0:
                break
            if _is_between(beginning, at + len(mark)):
                return at + len(mark)
    return _start_of_stretch(beginning) or len(text)


def _is_between(text: StyledText, at: int) -> bool:
    """Whether a break at an index is in no stretch that is better left whole; blocks of code break at lines."""
    before, after = text.cut(at)
    if not before.runs or not after.runs:
        return True
    left, right = before.runs[-1].style, after.runs[0].style
    if left.block is not None and left == right:
        return before.runs[-1].text.endswith("\n")
    return left != right or left == PLAIN


def _start_of_stretch(text: StyledText) -> int:
    """Index at which the styled stretch begins in which a text ends; 0 where it is longer than half of the text."""
    last = text.runs[-1]
    start = len(text.text) - len(last.text)
    return start if last.style != PLAIN and start >= len(text.text) * _EARLIEST else 0


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
    if point.isascii():
        return (before, point) == ("\r", "\n")
    if _JOINER in {before, point}:
        return True
    if unicodedata.combining(point) or unicodedata.category(point) in {"Mn", "Mc", "Me"}:
        return True
    if ord(point) in _VARIANTS or ord(point) in _SKIN:
        return True
    return ord(point) in _FLAGS and ord(before) in _FLAGS and at - start == 1
