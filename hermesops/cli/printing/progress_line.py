"""The line of a long step on a terminal: drawn over the one before it, and gone before anything else is written."""

import os
import sys
from contextlib import suppress

from hermesops.base.progress import ProgressLine
from hermesops.cli.printing import terminal
from hermesops.cli.printing.table import cut
from hermesops.wire.foreign_text import unbroken

_CLEAR = "\r\x1b[2K"
_WIDTH = 20
"""Columns of the bar."""


def draw(line: ProgressLine) -> bool:
    """Draw it on stderr; ``False`` where that cannot be drawn over, and for the last line of a step, which stays."""
    width = terminal.width(sys.stderr)
    if line.has_ended or not width or os.environ.get("TERM") in terminal.WITHOUT_CURSOR:  # noqa: TID251 - as terminal
        return False
    text = cut(f"{_bar(line.share)}{unbroken(line)}", width - 1)
    _write(f"{_CLEAR}{text}")
    return True


def clear() -> None:
    """Erase the line of the running step from the terminal."""
    _write(_CLEAR)


def _bar(share: float | None) -> str:
    if share is None:
        return ""
    done = round(_WIDTH * min(max(share, 0.0), 1.0))
    full, empty = ("█", "·") if (sys.stderr.encoding or "").lower().startswith("utf") else ("#", "-")
    return f"[{full * done}{empty * (_WIDTH - done)}] "


def _write(text: str) -> None:
    with suppress(UnicodeEncodeError):  # a locale without these characters: the next line is tried again
        sys.stderr.write(text)
        sys.stderr.flush()
