"""Writes styles as marks in a text, for messengers that read them there. Pure.

Marks hold no white space at their edges, and close in the reverse order of their opening: messengers show other marks
as they are.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from hermesops.users.messaging.texts.styled_text import Run, Style, StyledText

_FENCE = "```"
_NOTHING = "\u200b"
"""A space of no width, where marks of an agent's text would be taken for ours."""

_JOINED = ("`", "*")
_FENCES = re.compile(r"`{3,}")


@dataclass(frozen=True)
class Marks:
    """The marks of a messenger.

    Attributes:
        bold: On either side; so are ``italic`` and ``strike``.
        escape: Takes what the messenger would read as a mark of its own out of a text.
        link: Writes an address and the text of its link.
        escape_code: As ``escape``, for code; ``None`` where both are the same.
        has_languages: Whether the line that opens a block of code may name its language.
    """

    bold: str
    italic: str
    strike: str
    escape: Callable[[str], str]
    link: Callable[[str, str], str]
    escape_code: Callable[[str], str] | None = None
    has_languages: bool = False


def write(text: StyledText, marks: Marks) -> str:
    """Write a styled text with marks around its styled stretches."""
    written: list[str] = []
    for run in text.stripped().runs:
        for piece in _written(run, marks):
            written.append(_on_own_line(piece, written) if run.style.block is not None else _apart(piece, written))
    return "".join(written)


def _on_own_line(block: str, written: list[str]) -> str:
    """A block of code at the beginning of a line, whatever indented it."""
    if written:
        written[-1] = written[-1].rstrip(" ")
    before = "".join(written[-2:])
    return block if not before or before.endswith("\n") else f"\n{block}"


def _broken(match: re.Match[str]) -> str:
    """A fence of an agent's text that opens and closes none."""
    return _NOTHING.join(match[0])


def _apart(piece: str, written: list[str]) -> str:
    """A piece that makes no fence and no other mark together with what is before it."""
    is_joined = piece[:1] in _JOINED and bool(written) and written[-1].endswith(piece[:1])
    return f"{_NOTHING}{piece}" if is_joined else piece


def _written(run: Run, marks: Marks) -> Iterator[str]:
    style = run.style
    is_code = style.code or style.block is not None
    escape = marks.escape_code if is_code and marks.escape_code else marks.escape
    text = _FENCES.sub(_broken, escape(run.text))
    if style.block is not None:
        language = style.block if marks.has_languages else ""
        yield f"{_FENCE}{language}\n{text}\n{_FENCE}"
    elif style.code:
        yield _around(text.replace("`", _QUOTE), ["`"])
    elif style.link:
        yield _around(marks.link(style.link, text), list(_marks_of(style, marks)))
    else:
        yield from _lines(text, list(_marks_of(style, marks)))


_QUOTE = "\u02cb"
"""Stands for a grave accent in a line of code that is between such accents."""


def _marks_of(style: Style, marks: Marks) -> Iterator[str]:
    if style.bold:
        yield marks.bold
    if style.italic:
        yield marks.italic
    if style.strike:
        yield marks.strike


def _lines(text: str, marks: list[str]) -> Iterator[str]:
    """A text with its marks around each line: none reaches over the end of one."""
    for line in text.splitlines(keepends=True) if marks else [text]:
        yield _around(line, marks)


def _around(text: str, marks: Iterable[str]) -> str:
    bare = text.strip()
    if not bare:
        return text
    opening = "".join(marks)
    start = len(text) - len(text.lstrip())
    return f"{text[:start]}{opening}{bare}{opening[::-1]}{text[start + len(bare) :]}"
