"""Text with styles, as Markdown means it and before a messenger writes it. Pure."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True)
class Style:
    """How a stretch of text looks.

    Attributes:
        code: Whether it is code within a line.
        block: Language of a block of code, which may be empty; ``None`` outside of one.
        link: Address that it opens, ``http`` or ``https``; empty for none.
    """

    bold: bool = False
    italic: bool = False
    strike: bool = False
    code: bool = False
    block: str | None = None
    link: str = ""


PLAIN = Style()


@dataclass(frozen=True)
class Run:
    """A stretch of text of one style."""

    text: str
    style: Style = PLAIN


@dataclass(frozen=True)
class Span:
    """Where an attribute of styles holds.

    Attributes:
        start: Index of its first code point; end: after its last one.
        value: Of the attribute.
    """

    start: int
    end: int
    value: bool | str


@dataclass(frozen=True)
class StyledText:
    """A text as runs; neighbours differ in style, and none is empty."""

    runs: tuple[Run, ...] = ()

    @classmethod
    def joined(cls, runs: Iterable[Run]) -> "StyledText":
        """A text of runs, of which neighbours of one style become one."""
        return cls(tuple(_merged(runs)))

    @property
    def text(self) -> str:
        """The characters alone, without their styles."""
        return "".join(run.text for run in self.runs)

    def cut(self, at: int) -> tuple["StyledText", "StyledText"]:
        """The text before a code point and from it on; a run that is cut keeps its style on both sides."""
        left = at
        for number, run in enumerate(self.runs):
            if left < len(run.text):
                before = (*self.runs[:number], *([Run(run.text[:left], run.style)] if left else ()))
                return StyledText(before), StyledText((Run(run.text[left:], run.style), *self.runs[number + 1 :]))
            left -= len(run.text)
        return self, StyledText()

    def stripped(self) -> "StyledText":
        """Without blank lines before it and white space after it, which messengers drop or refuse."""
        text = self.text
        start = text[: len(text) - len(text.lstrip())].rfind("\n") + 1
        return self.cut(len(text.rstrip()))[0].cut(start)[1]

    def spans(self, attribute: Callable[[Style], bool | str | None]) -> Iterator[Span]:
        """Where an attribute holds, neighbours with one value as one; ``None`` and ``False`` mean that it does not."""
        at, start = 0, 0
        value: bool | str | None = None
        for run in (*self.runs, Run("")):
            now = attribute(run.style)
            if now != value:
                if value is not None and value is not False:
                    yield Span(start, at, value)
                start, value = at, now
            at += len(run.text)


def _merged(runs: Iterable[Run]) -> Iterator[Run]:
    for style, group in groupby((run for run in runs if run.text), key=lambda run: run.style):
        yield Run("".join(run.text for run in group), style)
