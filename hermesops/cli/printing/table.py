"""Tables for people: as wide as their cells in a pipe, fitted to a terminal. Pure.

Columns are in the order of their importance; the first one names the row. On a terminal, times lose their seconds.
Where it is too narrow, the next step goes below its row, ids keep their beginning, which commands take, sentences
fold, then names lose their middle from the last column on, and at last whole columns are left out from the right. Short
cells, as a state, and the first column stay whole.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import zip_longest

GAP = "  "
_NOTHING = "-"
"""A cell without a value."""

_KEPT_TOGETHER = "\N{NO-BREAK SPACE}"
"""A blank at which no line is folded, as between the words of a command; it is shown as a blank."""

_INDENT = "    "
_BELOW = ("hint", "next")
"""Columns that say what to do next: they go below their row where there is no room beside it."""

_KNOWN_BY_BEGINNINGS = ("id", "user")
"""First columns whose ids commands know by the first eight characters."""

_SENTENCES = ("detail", "description", "purpose", "title", "step", "why", "alerts", "file")
"""Columns of sentences, lists and paths: they go below their row where they would fold into narrow lines beside it."""

_SHORT = 17
"""Columns of a cell that is never cut; a time without seconds has so many."""

_LONGEST_NAME = 36
"""Columns of the first cell, so that it can be copied; an id has so many."""

_NARROW = 12
"""Columns of a longer cell, before whole columns are left out."""

_COMFORTABLE = 40
"""Columns to which sentences are folded before anything is cut."""

_LONG_WORD = 28
"""Columns of a word that is not broken while another column can give way."""

_MOST_LINES = 8
"""Lines of a folded cell."""

_ID = re.compile(r"\b([0-9a-f]{8})(?:(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{24,})\b")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(?::\d\d(?:\.\d+)?)?(?:\+00:00|Z)")


@dataclass(frozen=True)
class Fitted:
    """The lines of a table, and names of the columns that had no place."""

    lines: list[str]
    left_out: tuple[str, ...] = ()


def plain(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table as wide as its cells."""
    cells = [_titles(columns), *rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    return [_shown(GAP.join(text.ljust(width) for text, width in zip(line, widths, strict=True))) for line in cells]


def folded(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """A table whose last column stands below its row; lines fold at a width where words allow it."""
    from textwrap import TextWrapper

    head, *lines = plain(columns[:-1], [row[:-1] for row in rows])
    indent = " " * head.rfind(_titles(columns)[-2])
    wrapper = TextWrapper(width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
    steps = [[] if row[-1] == _NOTHING else [f"{_INDENT}{row[-1]}"] for row in rows]
    return [head, *(line for row, step in zip(lines, steps, strict=True) for line in (*wrapper.wrap(row), *step))]


def fitted(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    *,
    below: str = "",
    commands: Collection[str] = (),
) -> Fitted:
    """A table in the width of a terminal.

    Args:
        below: A column that stands below its row also where there is room for it.
        commands: No line is folded within one of these below a row, so that it can be copied.
    """
    rows = [[_TIME.sub(r"\1 \2Z", cell) for cell in row] for row in rows]
    lines = plain(columns, rows)
    if not below and max(map(_length, lines)) <= width:
        return Fitted(lines)
    below = below or _next_step(columns, rows) or _narrow(columns, rows, width)
    firsts = _first_cells(columns[0], [row[0] for row in rows])
    cells = [[first, *(_ID.sub(r"\1…", cell) for cell in row[1:])] for first, row in zip(firsts, rows, strict=True)]
    beside = [_Column.of(name, [row[at] for row in cells]) for at, name in enumerate(columns) if name != below]
    shown, widths = _place(beside, width)
    steps = [row[columns.index(below)] if below else _NOTHING for row in rows]
    lines = _row([column.title for column in shown], shown, widths)
    for number, step in enumerate(steps):
        lines += _row([column.cells[number] for column in shown], shown, widths)
        lines += _below(step, width, commands) if step != _NOTHING else []
    return Fitted(lines, tuple(column.name for column in beside[len(shown) :]))


def _first_cells(name: str, cells: list[str]) -> list[str]:
    """The cells that name the rows: ids by their beginnings, without a mark that would be copied, if these differ."""
    beginnings = [_ID.sub(r"\1", cell) for cell in cells] if name in _KNOWN_BY_BEGINNINGS else cells
    return beginnings if len(set(beginnings)) == len(set(cells)) else cells


def _next_step(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The column that says in sentences what to do next; empty for none."""
    longest = {name: max(_length(row[at]) for row in rows) for at, name in enumerate(columns) if name in _BELOW}
    return next((name for name, length in longest.items() if length > _LONG_WORD), "")


def _narrow(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> str:
    """The column of sentences that has too little room beside the others; empty for none."""
    naturals = {name: max(_length(row[at]) for row in rows) for at, name in enumerate(columns)}
    for name in _SENTENCES:
        others = sum(max(len(other), natural) + len(GAP) for other, natural in naturals.items() if other != name)
        is_long = naturals.get(name, 0) > max(_SHORT, width - others)
        if is_long and name != columns[0] and width - others < _COMFORTABLE:
            return name
    return ""


@dataclass(frozen=True)
class _Column:
    """A column with its cells; ``natural`` is the width of the longest, ``word`` that of the longest word."""

    name: str
    title: str
    cells: list[str]
    natural: int
    word: int
    folds: bool

    @classmethod
    def of(cls, name: str, cells: list[str]) -> "_Column":
        [title] = _titles([name])
        natural = max(map(_length, [title, *cells]))
        folds = natural > _SHORT and any(" " in cell for cell in cells)
        word = max(_length(word) for cell in cells for word in cell.split(" "))
        return cls(name, title, cells, natural, word, folds)

    def least(self, width: int) -> int:
        """The width that the column keeps where long cells get this one."""
        return self.natural if self.natural <= _SHORT else width


def _place(columns: list[_Column], width: int) -> tuple[list[_Column], list[int]]:
    """The columns for which there is room, and the width of each."""
    for count in range(len(columns), 1, -1):
        widths = _widths(columns[:count], width - len(GAP) * (count - 1))
        if widths:
            return columns[:count], widths
    return columns[:1], [min(columns[0].natural, width)]


def _widths(columns: list[_Column], room: int) -> list[int]:
    """Widths that fit into the room; none where the least that columns need does not."""
    widths = [column.natural for column in columns]
    for at, least in _gives_way(columns):
        excess = max(0, sum(widths) - room)
        widths[at] = max(min(least, widths[at]), widths[at] - excess)
    return widths if sum(widths) <= room else []


def _gives_way(columns: list[_Column]) -> list[tuple[int, int]]:
    """Columns in the order in which they become narrower, each with its least width."""
    last_first = [(at, columns[at]) for at in range(len(columns) - 1, 0, -1)]
    prose = sorted(
        (numbered for numbered in last_first if numbered[1].folds), key=lambda numbered: -numbered[1].natural
    )
    names = [numbered for numbered in last_first if not numbered[1].folds]
    return [
        *((at, column.least(max(_COMFORTABLE, column.word))) for at, column in prose),
        *((at, column.least(_SHORT)) for at, column in names),
        *((at, column.least(max(_SHORT, min(column.word, _LONG_WORD)))) for at, column in prose),
        *((at, column.least(_SHORT)) for at, column in prose),
        *((at, column.least(_NARROW)) for at, column in (*names, *prose)),
        (0, min(columns[0].natural, _LONGEST_NAME)),
    ]


def _row(texts: list[str], columns: list[_Column], widths: list[int]) -> list[str]:
    """The lines of a row, of which each cell has one or more."""
    cells = [
        _shortened(fold(text, width), width) if column.folds else [cut(text, width)]
        for text, column, width in zip(texts, columns, widths, strict=True)
    ]
    rows = zip_longest(*cells, fillvalue="")
    return [_shown(GAP.join(map(_pad, pieces, widths))) for pieces in rows]


def _below(text: str, width: int, commands: Collection[str]) -> list[str]:
    if " " not in text:
        return [f"{_INDENT}{text}"]  # a path; a terminal that is narrower goes on with it, so it can be copied
    for command in commands:
        text = text.replace(command, command.replace(" ", _KEPT_TOGETHER))
    return [f"{_INDENT}{_shown(piece)}" for piece in fold(text, width - len(_INDENT))]


def _shortened(lines: list[str], width: int) -> list[str]:
    """The first lines of a cell."""
    if len(lines) <= _MOST_LINES:
        return lines
    return [*lines[: _MOST_LINES - 1], f"{_beginning(lines[_MOST_LINES - 1], width - 1)}…"]


def fold(text: str, width: int) -> list[str]:
    """A text as lines of whole words; only a word that is longer than a line is broken, and a command never."""
    lines = [""]
    for word in text.split(" "):
        rest = word
        while _KEPT_TOGETHER not in rest and _length(rest) > width:
            piece = _beginning(rest, width)
            lines, rest = [*lines, piece], rest[len(piece) :]
        if lines[-1] and _length(lines[-1]) + 1 + _length(rest) > width:
            lines.append(rest)
        else:
            lines[-1] = f"{lines[-1]} {rest}".strip()
    return lines if lines[0] else lines[1:] or lines


def cut(text: str, width: int) -> str:
    """A text in a width; a longer one loses its middle, as names differ at both ends."""
    if _length(text) <= width:
        return text
    end = text[len(text) - (width - 1) // 2 :] if text.isascii() else ""
    return f"{_beginning(text, width - 1 - len(end))}…{end}"


def _beginning(text: str, width: int) -> str:
    from rich.cells import set_cell_size

    return set_cell_size(text, width).rstrip()


def _titles(columns: Sequence[str]) -> list[str]:
    return [column.replace("_", " ").upper() for column in columns]


def _pad(text: str, width: int) -> str:
    return text + " " * (width - _length(text))


def _shown(line: str) -> str:
    return line.replace(_KEPT_TOGETHER, " ").rstrip()


def _length(text: str) -> int:
    """Columns of a terminal that a text takes: Chinese has two a character."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
