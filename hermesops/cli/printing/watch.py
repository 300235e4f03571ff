"""Something that is shown again and again until Ctrl-C: redrawn on a terminal, one after another elsewhere."""

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hermesops.base.waiting import pause_blocking
from hermesops.cli import console
from hermesops.cli.printing import palette
from hermesops.cli.printing.rows import Row, name_column
from hermesops.errors import HermesError, UsageError
from hermesops.views.timestamps import Age
from hermesops.wire.foreign_text import unbroken

if TYPE_CHECKING:
    from rich.live import Live

EVERY_S = 5.0

_SHORTEST_S = 1.0


def watch(lines: Callable[[], Sequence[str]], every_s: float = EVERY_S) -> None:
    """Show the result of ``lines`` every so many seconds, until Ctrl-C. A failed read is repeated.

    Raises:
        UsageError: A program reads, or it is asked more often than every second.
        HermesError: The first time failed.
    """
    _refuse(every_s)
    with suppress(KeyboardInterrupt):
        shown = lines()
        show = _redraw if _can_draw() else _one_after_another
        show(lines, shown, every_s)


def watch_list(
    key: str,
    columns: Sequence[str],
    rows: Callable[[], Sequence[Row]],
    empty: str,
    *,
    every_s: float = EVERY_S,
) -> None:
    """Show a list until Ctrl-C: redrawn on a terminal; elsewhere the list once, then a line for each change.

    ``--sort``, ``--filter`` and ``-o`` count as for the list itself. What fails once is tried again.

    Args:
        key: Name of the rows, as in ``console.table``.
        rows: Reads the rows, which are told apart by the column that names them.

    Raises:
        UsageError: A program reads, or it is asked more often than every second.
        HermesError: The first time failed.
    """

    def lines() -> Sequence[str]:
        return console.list_lines(key, columns, rows(), empty)

    if _can_draw():
        watch(lines, every_s)
        return
    _refuse(every_s)
    with suppress(KeyboardInterrupt):
        _follow(key, columns, rows, empty, every_s)


def differences(name: str, columns: Sequence[str], before: Sequence[Row], now: Sequence[Row]) -> list[str]:
    """A line for each row that was added, changed or removed. Pure.

    Args:
        name: The column that names a row.
        columns: Those that count; of them, an age is no change.
    """
    old, new = ({str(row.get(name)): row for row in rows} for rows in (before, now))
    changed = [(named, _changes(columns, old[named], row)) for named, row in new.items() if named in old]
    return [
        *(f"{named}: removed" for named in old if named not in new),
        *(f"{named}: added, {_words(name, columns, row)}" for named, row in new.items() if named not in old),
        *(f"{named}: {', '.join(words)}" for named, words in changed if words),
    ]


def _changes(columns: Sequence[str], before: Row, now: Row) -> list[str]:
    pairs = ((column, before.get(column), now.get(column)) for column in columns)
    return [
        f"{_title(column)} {_cell(was)} -> {_cell(became)}"
        for column, was, became in pairs
        if was != became and not isinstance(became, Age)
    ]


def _words(name: str, columns: Sequence[str], row: Row) -> str:
    return ", ".join(f"{_title(column)} {_cell(row.get(column))}" for column in columns if column != name)


def _title(column: str) -> str:
    return column.replace("_", " ")


def _cell(value: object) -> str:
    text = "; ".join(map(str, value)) if isinstance(value, list) else str(value)
    return "-" if value in (None, "", []) else text


def _follow(key: str, columns: Sequence[str], rows: Callable[[], Sequence[Row]], empty: str, every_s: float) -> None:
    all_rows = rows()
    console.write("\n".join((*console.list_lines(key, columns, all_rows, empty), "")))
    before, problem = console.chosen_rows(columns, all_rows), ""
    while True:
        pause_blocking(every_s)
        try:
            now = console.chosen_rows(columns, rows())
        except HermesError as error:
            if error.message != problem:  # once: the same outage would fill the log of whoever reads
                problem = error.message
                console.say(f"read failed: {problem}")
            continue
        problem, at = "", f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}Z"
        counted = console.shown_columns(columns, now)
        for line in differences(name_column(key, columns), counted, before, now):
            console.write(f"{at}  {unbroken(line)}\n")
        before = now


def _refuse(every_s: float) -> None:
    if console.is_json():
        raise UsageError("--watch is for people; a program repeats the command")
    if every_s < _SHORTEST_S:
        raise UsageError(f"--every: {_SHORTEST_S:g} s or more")


def _can_draw() -> bool:
    if not sys.stdout.isatty():
        return False
    from rich.console import Console

    return not Console().is_dumb_terminal


def _one_after_another(lines: Callable[[], Sequence[str]], shown: Sequence[str], every_s: float) -> None:
    while True:
        console.write("\n".join((_heading(every_s), *shown, "", "")))
        pause_blocking(every_s)
        shown = _again(lines, shown)


def _redraw(lines: Callable[[], Sequence[str]], shown: Sequence[str], every_s: float) -> None:
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(), auto_refresh=False) as live:
        while True:
            folded = (piece for line in shown for piece in console.fold(unbroken(line), sys.stdout))
            _draw(live, [_heading(every_s), "", *folded])
            pause_blocking(every_s)
            shown = _again(lines, shown)


def _draw(live: "Live", lines: Sequence[str]) -> None:
    from rich.text import Text

    # A terminal scrolls when its last row is written to, and then nothing can be drawn over.
    rows = [palette.drawn(unbroken(line)) for line in lines[: live.console.size.height - 1]]
    for row in rows:
        row.truncate(live.console.width, overflow="ellipsis")
    live.update(Text("\n").join(rows), refresh=True)


def _again(lines: Callable[[], Sequence[str]], before: Sequence[str]) -> Sequence[str]:
    """Read the lines again; if that fails, return the error above the lines from before."""
    try:
        return lines()
    except HermesError as error:
        old = [line for line in before if not line.startswith(_FAILED)]
        return [f"{_FAILED}{error.message}", *old]


_FAILED = "read failed, the state from before is below: "


def _heading(every_s: float) -> str:
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC, every {every_s:g} s; Ctrl-C ends this"
