"""The terminal that a stream is: how wide, and whether it shows colours. Everything else is a pipe or a file."""

import os
import sys
from typing import TextIO

_NARROWEST = 40
"""Columns that tables are laid out for at least."""


def width() -> int | None:
    """Columns of the terminal that stdout is; ``None`` where it is none, so that nothing is cut."""
    if not sys.stdout.isatty():
        return None
    import shutil

    return max(_NARROWEST, shutil.get_terminal_size().columns)


def has_colour(stream: TextIO) -> bool:
    """Whether a stream is a terminal that shows colours to somebody who did not decline them (``NO_COLOR``)."""
    variables = os.environ  # noqa: TID251 - they are about the terminal, not about an environment of hermesops
    return stream.isatty() and not variables.get("NO_COLOR") and variables.get("TERM") not in {"dumb", "unknown"}
