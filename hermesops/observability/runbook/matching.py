"""Searches a command's output for a text."""

import re
from collections.abc import Sequence

_CUT = 2000
"""Characters of a line that are compared."""


def shows(output: str, text: str) -> str:
    """The line of an output in which a text stands, as whole words; empty where it does not.

    Blanks count as one, whatever their number: columns move.
    """
    pieces = [r"\s+".join(map(re.escape, piece.split())) for piece in text.split("…")]
    pieces[0] = rf"(?<![\w@-])(?<!\w\.){pieces[0]}"
    pieces[-1] = rf"{pieces[-1]}(?![\w@-]|\.\w)"
    patterns = [re.compile(piece) for piece in pieces]
    return next((line for line in output.splitlines() if _has_in_order(line[:_CUT], patterns)), "")


def _has_in_order(line: str, patterns: Sequence[re.Pattern[str]]) -> bool:
    """Whether each is found behind the one before; one pattern of all would take for ever on some lines."""
    end = 0
    for pattern in patterns:
        match = pattern.search(line, end)
        if not match:
            return False
        end = match.end()
    return True
