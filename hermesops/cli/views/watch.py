"""Something that is shown again and again until Ctrl-C: redrawn on a terminal, one after another elsewhere."""

import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hermesops.base.waiting import pause_blocking
from hermesops.cli import console, palette
from hermesops.errors import HermesError, UsageError
from hermesops.wire.foreign_text import unbroken

if TYPE_CHECKING:
    from rich.live import Live

EVERY_S = 5.0

_SHORTEST_S = 1.0


def watch(lines: Callable[[], Sequence[str]], every_s: float = EVERY_S) -> None:
    """Show what ``lines`` returns, every so many seconds, until Ctrl-C. What fails once is tried again.

    Raises:
        UsageError: A program reads, or it is asked more often than every second.
        HermesError: The first time failed.
    """
    if console.is_json():
        raise UsageError("--watch is for people; a program repeats the command")
    if every_s < _SHORTEST_S:
        raise UsageError(f"--every: {_SHORTEST_S:g} s or more")
    shown = lines()
    show = _redraw if _can_draw() else _one_after_another
    with suppress(KeyboardInterrupt):
        show(lines, shown, every_s)


def _can_draw() -> bool:
    if not sys.stdout.isatty():
        return False
    from rich.console import Console

    return not Console().is_dumb_terminal


def _one_after_another(lines: Callable[[], Sequence[str]], shown: Sequence[str], every_s: float) -> None:
    while True:
        console.write("\n".join((_title(every_s), *shown, "", "")))
        pause_blocking(every_s)
        shown = _again(lines, shown)


def _redraw(lines: Callable[[], Sequence[str]], shown: Sequence[str], every_s: float) -> None:
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(), auto_refresh=False) as live:
        while True:
            _draw(live, [_title(every_s), "", *shown])
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
    """What is there now; what was there before, below why it cannot be read."""
    try:
        return lines()
    except HermesError as error:
        old = [line for line in before if not line.startswith(_FAILED)]
        return [f"{_FAILED}{error.message}", *old]


_FAILED = "not read again, below is what was read before: "


def _title(every_s: float) -> str:
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC, every {every_s:g} s; Ctrl-C ends this"
