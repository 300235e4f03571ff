"""Reads Markdown of agents into styled text. Pure, and linear in the text's length whatever stands in it.

Marks that become styles are dropped; everything else stays as it was written, HTML and what is no Markdown too, so that
no word of an agent is lost. Bullets become one sign, and tables stay as they stand, as blocks of code.

Source: CommonMark 0.31; GitHub Flavored Markdown, tables and strikethrough; pyromark 0.10, ``events_with_range``, whose
ranges are bytes.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyromark

from hermesops.users.messaging.texts.styled_text import PLAIN, Run, Style, StyledText

_OPTIONS = pyromark.Options.ENABLE_TABLES | pyromark.Options.ENABLE_STRIKETHROUGH
_BULLETS = frozenset({b"-", b"*", b"+"})
_BULLET = "\u2022"
_WEB = ("https://", "http://")
_LONGEST_ADDRESS = 2_000
_LANGUAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_+#.-]{0,31}")
"""Of a block of code; a fence of tildes may have backticks behind it, which would end what a messenger is sent."""

_MARKS = {"Strong": (2, {"bold": True}), "Emphasis": (1, {"italic": True}), "Strikethrough": (2, {"strike": True})}
"""Bytes of the marks on either side of a stretch, and what they mean."""


def read(markdown: str) -> StyledText:
    """Read a text of an agent; code points that UTF-8 does not have become question marks."""
    source = markdown.encode(errors="replace")
    reader = _Reader(source)
    for event, stretch in pyromark.events_with_range(source.decode(), options=_OPTIONS, merge_text=False):
        reader.take(event, stretch["start"], stretch["end"])
    reader.keep(len(source))
    return StyledText.joined(reader.runs)


def plain(text: str) -> StyledText:
    """A text without styles, as the platform writes them."""
    return StyledText.joined([Run(text)])


@dataclass(frozen=True)
class _Stretch:
    """A stretch of one style that has begun.

    Attributes:
        is_marked: Whether its marks are dropped.
        address: Shown where a link or an image has no text.
        runs: Number of runs before it.
    """

    style: Style
    is_marked: bool = True
    address: str = ""
    runs: int = 0


@dataclass
class _Reader:
    """Goes through the events of a text.

    Attributes:
        at: Byte up to which the text was taken.
    """

    source: bytes
    runs: list[Run] = field(default_factory=list)
    at: int = 0
    _open: list[_Stretch] = field(default_factory=lambda: [_Stretch(PLAIN)])
    _is_heading_begun: bool = False
    _table_ends: int = 0

    def take(self, event: Any, start: int, end: int) -> None:  # noqa: ANN401 - a union of dictionaries and words
        """Take an event and what stands before it."""
        if start < self._table_ends:
            return
        if event in ("SoftBreak", "HardBreak"):
            self._write(start, end, "\n")
        elif isinstance(event, Mapping):
            ((kind, value),) = event.items()
            if kind == "Start":
                self._start(value, start, end)
            elif kind == "End":
                self._end(value if isinstance(value, str) else next(iter(value)), end)
            elif kind == "Code":
                # No messenger has both, and an address that is gone is worse than letters of another shape.
                self._write(start, end, value, self._style if self._style.link else Style(code=True))
            elif kind in {"Text", "InlineHtml"}:
                self._write(start, end, value)

    def keep(self, until: int) -> None:
        """Write what stands before a byte as it is: space between blocks, signs of lists and quotes."""
        if until > self.at:
            self._add(self.source[self.at : until].decode())
            self.at = until

    def _add(self, text: str, style: Style | None = None) -> None:
        self.runs.append(Run(text, style or self._style))

    @property
    def _style(self) -> Style:
        return self._open[-1].style

    def _write(self, start: int, end: int, text: str, style: Style | None = None) -> None:
        """Write text in the place of a stretch of the source, without the mark before it."""
        if self._is_heading_begun or self._style.block is not None:
            self.at = max(self.at, start)
            self._is_heading_begun = False
        if self.source[start - 1 : start] == b"\\" and self.at < start:  # escapes what follows
            self.keep(start - 1)
            self.at = start
        self.keep(start)
        self._add(text, style)
        self.at = max(self.at, end)

    def _start(self, tag: Any, start: int, end: int) -> None:  # noqa: ANN401 - as above
        name, value = next(iter(tag.items())) if isinstance(tag, Mapping) else (tag, {})
        if name in _MARKS:
            is_marked = name != "Strikethrough" or self.source[start : start + 2] == b"~~"  # one tilde means "about"
            self._begin(start, _MARKS[name][0] if is_marked else 0, _MARKS[name][1] if is_marked else {})
        elif name in {"Link", "Image"}:
            address = _web(value["dest_url"])
            self._begin(start, (1 if name == "Link" else 2) if address else 0, {"link": address}, address)
        elif name == "Heading":
            self.keep(start)
            self._push({"bold": True})
            self._is_heading_begun = True
        elif name == "CodeBlock":
            self.keep(start)
            self._begin_block(value.get("Fenced", "") if isinstance(value, Mapping) else "")
        elif name == "Table":
            self._keep_table(start, end)
        elif name == "Item" and self.source[start : start + 1] in _BULLETS:
            self._write(start, start + 1, _BULLET)

    def _begin(self, start: int, marks: int, changes: Mapping[str, Any], address: str = "") -> None:
        """Begin a stretch after its marks, a number of bytes; without any, they stay, at both ends."""
        self._write(start, start, "")
        self.at = max(self.at, start + marks)
        self._push(changes, is_marked=marks > 0, address=address)

    def _push(self, changes: Mapping[str, Any], *, is_marked: bool = True, address: str = "") -> None:
        self._open.append(_Stretch(replace(self._style, **changes), is_marked, address, len(self.runs)))

    def _end(self, name: str, end: int) -> None:
        if name in _MARKS or name in {"Link", "Image"}:
            stretch = self._open.pop()
            if stretch.address and not any(run.text for run in self.runs[stretch.runs :]):
                self._add(stretch.address, stretch.style)
            if stretch.is_marked:
                self.at = max(self.at, end)
            self.keep(end)
        elif name in {"Heading", "CodeBlock"}:
            stretch = self._open.pop()
            self._is_heading_begun = False
            if name == "CodeBlock":
                self._end_block(stretch)
            self.at = max(self.at, self._before_newline(end))

    def _begin_block(self, words: str) -> None:
        """Begin a block of code; words beside its language are its first line, as no messenger shows them elsewhere."""
        first = "".join(words.split()[:1])
        language = first if _LANGUAGE.fullmatch(first) else ""
        self._push({"block": language})
        if words.strip() != language:
            self._add(f"{words}\n")

    def _end_block(self, stretch: _Stretch) -> None:
        """Take the line end before a closing fence out; a block without a line has its language for one."""
        if stretch.style.block and not any(run.text for run in self.runs[stretch.runs :]):
            self._add(stretch.style.block, stretch.style)
        if self.runs and self.runs[-1].style.block is not None and self.runs[-1].text.endswith("\n"):
            self.runs[-1] = replace(self.runs[-1], text=self.runs[-1].text[:-1])

    def _keep_table(self, start: int, end: int) -> None:
        self.keep(start)
        self._table_ends, until = end, self._before_newline(end)
        self._add(self.source[start:until].decode(), Style(block=""))
        self.at = until

    def _before_newline(self, end: int) -> int:
        return end - 1 if self.source[end - 1 : end] == b"\n" else end


def _web(address: str) -> str:
    """An address of the web; empty for any other, which no messenger opens."""
    is_one = address.startswith(_WEB) and len(address) <= _LONGEST_ADDRESS and address.isprintable()
    return address if is_one and " " not in address else ""
