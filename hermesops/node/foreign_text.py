r"""Text from a side that may be hostile, made fit to be shown to a person beside our own words. Pure.

A terminal obeys what it is shown: escape sequences rewrite lines that stand there and fill the clipboard, bidirectional
controls reorder what is read, a carriage return hides what came before it (CVE-2021-42574 is the same for source code).
"""

import unicodedata

LONGEST = 300
"""Characters of a foreign sentence that are shown."""

_BLANKS = frozenset("\t\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029")
_INVISIBLE = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"})
"""Categories of Unicode whose characters move the cursor, reorder text or leave no mark."""


def one_line(text: str, *, longest: int = LONGEST) -> str:
    """A text as one line: line breaks and tabs become blanks, what is invisible becomes visible, the end is cut.

    Args:
        text: As it came.
        longest: Characters that are kept; a cut is marked with an ellipsis.
    """
    head = text[: 4 * longest]  # a text of megabytes is not walked through
    line = " ".join(visible("".join(" " if char in _BLANKS else char for char in head)).split())
    return line if len(line) <= longest and len(text) <= len(head) else f"{line[:longest]}…"


def visible(text: str) -> str:
    r"""A text with each invisible character but line feed and tab as its escape, as ``\x1b`` and ``\u202e``."""
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(char if _is_plain(char) else _escaped(char) for char in text)


def quoted(text: str, *, longest: int = LONGEST) -> str:
    """A text as a quotation, so that it is never read as a word of ours: one line between marks it cannot close."""
    return f"“{one_line(text, longest=longest).translate(_MARKS)}”"


_MARKS = str.maketrans({"“": '"', "”": '"', "„": '"'})


def _is_plain(char: str) -> bool:
    return char in "\n\t" or unicodedata.category(char) not in _INVISIBLE


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
