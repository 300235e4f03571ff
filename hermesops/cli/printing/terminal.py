"""The terminal that a stream is: how wide, and whether it shows colours. Everything else is a pipe or a file."""

import os
import sys
from typing import TextIO

_NARROWEST = 40
"""Columns that tables are laid out for at least."""


WITHOUT_CURSOR = frozenset({"dumb", "unknown"})
"""Values of ``TERM`` of terminals that obey no escape sequence."""

_USUAL = 80
"""Columns of a terminal that does not say how many it has."""


def width(stream: TextIO | None = None) -> int | None:
    """Columns of the terminal that a stream is, by default stdout; ``None`` where it is none: nothing is cut there."""
    stream = stream or sys.stdout
    if not stream.isatty():
        return None
    import shutil

    columns = shutil.get_terminal_size((0, 0)).columns  # of ``COLUMNS``, else of stdout
    return max(_NARROWEST, columns or _own_width(stream))


def _own_width(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or _USUAL
    except (OSError, ValueError):
        return _USUAL


def has_colour(stream: TextIO) -> bool:
    """Whether a stream is a terminal with colours that ``NO_COLOR`` does not switch off."""
    variables = os.environ  # noqa: TID251 - they are about the terminal, not about an environment of hermesops
    return stream.isatty() and not variables.get("NO_COLOR") and variables.get("TERM") not in WITHOUT_CURSOR
