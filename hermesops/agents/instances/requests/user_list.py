"""Reads a list of users as editors and spreadsheets write it: a user a line, or a table below a heading. Pure.

A spreadsheet separates by ``;`` where a comma is the decimal sign, and copies with tabs; it fills each line up to the
widest with empty cells.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass

from hermesops.errors import UsageError

COLUMNS = ("user", "plan", "region")

_SEPARATORS = (",", ";", "\t")


@dataclass(frozen=True)
class UserList:
    """The lines of a list.

    Attributes:
        columns: In the order of the cells.
        rows: Number of each line, from 1, and its cells.
        heading: Number of the line that names the columns; 0 without one.
    """

    columns: Sequence[str]
    rows: Sequence[tuple[int, Sequence[str]]]
    heading: int = 0


def parse_user_list(text: str) -> UserList:
    """Read a list; empty lines, and those that begin with ``#``, are skipped.

    The first line is the heading where one of its cells is ``user``, or all are names of columns.

    Raises:
        UsageError: It is no CSV, or its heading names other columns than ``COLUMNS``.
    """
    lines = [(n, line) for n, line in enumerate(text.splitlines(), 1) if line.strip() and line.strip()[0] != "#"]
    separator = next((sign for sign in _SEPARATORS if lines and sign in lines[0][1]), ",")
    rows = [(number, cells) for number, line in lines if any(cells := _cells(line, number, separator))]
    names = [name.casefold() for name in rows[0][1]] if rows else []
    if "user" in names or (len(names) > 1 and set(names) <= {*COLUMNS, ""}):
        number = rows[0][0]
        columns = _columns(names, number)
        return UserList(columns, [(n, _within(cells, len(columns))) for n, cells in rows[1:]], number)
    return UserList(COLUMNS[:1], [(n, _within(cells, 1)) for n, cells in rows])


def _cells(line: str, number: int, separator: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=separator))]
    except csv.Error as error:
        raise UsageError(f"line {number}: no CSV: {error}") from None


def _columns(names: Sequence[str], number: int) -> Sequence[str]:
    columns = _within(names, 0)
    there_are = f"line {number} is the heading, and there are {', '.join(COLUMNS)}"
    if unknown := sorted(set(columns) - set(COLUMNS)):
        raise UsageError(
            f"unknown columns {', '.join(name or '(one without a name)' for name in unknown)}: {there_are}"
        )
    if len(set(columns)) < len(columns) or "user" not in columns:
        raise UsageError(f"the columns {', '.join(columns)} name each once, and user among them: {there_are}")
    return columns


def _within(cells: Sequence[str], most: int) -> Sequence[str]:
    """The cells without the empty ones at the end of those above ``most``."""
    count = len(cells)
    while count > most and not cells[count - 1]:
        count -= 1
    return cells[:count]
