"""The rows of a list that were asked for: ``--filter``, ``--sort``, and the columns of ``-o wide``. Pure."""

import re
from collections.abc import Callable, Mapping, Sequence

from hermesops.errors import UsageError

Row = Mapping[str, object]


_FILTER = re.compile(r"(?P<column>[^=!]+)(?P<unlike>!?)=(?P<text>.*)", re.DOTALL)


_TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?(?:\+00:00|Z)")


def for_people(text: str) -> str:
    """Rewrite a cell that is a time in UTC as ISO 8601 into ``2026-11-28 20:35:04Z``; any other text is unchanged."""
    match = _TIME.fullmatch(text)
    return f"{match[1]} {match[2]}Z" if match else text


def choose(columns: Sequence[str], rows: Sequence[Row], *, order: str, filters: Sequence[str]) -> list[Row]:
    """Rows that pass all filters, in the order that was asked for.

    Args:
        columns: Shown by default; a row may have more, which are sorted and filtered by as well.
        order: A column; behind ``-``, the greatest comes first. Empty leaves the rows as they are.
        filters: ``COLUMN=TEXT`` or ``COLUMN!=TEXT``; ``*`` in the text stands for any characters, case does not count.

    Raises:
        UsageError: There is no such column, or a filter has no ``=``.
    """
    if not rows:
        return []  # which columns there are is not known
    known = all_columns(columns, rows)
    tests = [_test(text, known) for text in filters]
    chosen = [row for row in rows if all(test(row) for test in tests)]
    if order:
        column = _column(order.removeprefix("-"), known, "--sort")
        there = [row for row in chosen if row.get(column) is not None]
        there.sort(key=lambda row: _rank(row[column]), reverse=order.startswith("-"))
        chosen = [*there, *(row for row in chosen if row.get(column) is None)]
    return chosen


def all_columns(columns: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """The columns of a list, then the other fields of its rows that fit into a cell."""
    further = dict.fromkeys(name for row in rows for name in row if name not in columns)
    return [*columns, *(name for name in further if all(_fits(row.get(name)) for row in rows))]


def name_column(key: str, columns: Sequence[str]) -> str:
    """The column that names a row: the one that is called as the rows are (``alert`` of ``alerts``), else the first."""
    singular = key.removesuffix("s")
    return singular if singular in columns else columns[0]


def _fits(value: object) -> bool:
    return not isinstance(value, Mapping) and not (
        isinstance(value, list) and any(isinstance(item, Mapping) for item in value)
    )


def _column(name: str, known: Sequence[str], option: str) -> str:
    """The column that a person means: ``MACHINE NAME``, ``machine-name`` and ``machine_name`` are one."""
    column = name.strip().lower().replace(" ", "_").replace("-", "_")
    if column not in known:
        raise UsageError(f"{option}: there is no column {name!r}", hint=f"columns: {', '.join(known)}")
    return column


def _test(text: str, known: Sequence[str]) -> Callable[[Row], bool]:
    match = _FILTER.fullmatch(text)
    if match is None:
        raise UsageError(f"--filter {text!r}: COLUMN=TEXT or COLUMN!=TEXT", hint=f"columns: {', '.join(known)}")
    column = _column(match["column"], known, "--filter")
    pattern = re.compile(".*".join(map(re.escape, match["text"].split("*"))), re.IGNORECASE | re.DOTALL)
    return lambda row: any(map(pattern.fullmatch, _texts(row.get(column)))) != bool(match["unlike"])


def _texts(value: object) -> list[str]:
    """Texts of a cell for filters: each of several values, and both spellings of a time and of none."""
    if isinstance(value, list):
        return [*map(str, value)] or ["", "-"]
    return ["", "-"] if value in (None, "") else [str(value), for_people(str(value))]


def _rank(value: object) -> tuple[int, float, str]:
    """Numbers by their size, and before text."""
    if isinstance(value, (int, float)):
        return (0, float(value), "")
    return (1, 0.0, ", ".join(map(str, value)) if isinstance(value, list) else str(value))
