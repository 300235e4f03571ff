r"""Text from a possibly hostile source, made safe to show beside our own text. Pure.

Terminals interpret text: escape sequences rewrite earlier lines and fill the clipboard, bidirectional controls reorder
text, a carriage return hides the text before it (CVE-2021-42574 is the same for source code).
"""

LONGEST = 300
"""Characters of a foreign sentence that are shown."""


def one_line(text: str, *, longest: int = LONGEST) -> str:
    """A text as one line: line breaks and tabs become blanks, invisible characters become visible, the end is cut.

    Args:
        longest: Characters that are kept; a cut is marked with an ellipsis.
    """
    head = text[: 4 * longest]  # a text of megabytes is not walked through
    line = visible(" ".join(head.split()))
    return line if len(line) <= longest and len(text) <= len(head) else f"{line[:longest]}…"


def visible(text: str) -> str:
    r"""A text with all unprintable characters, but line feeds and tabs, as escapes like ``\x1b`` and ``\u202e``."""
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    shown = (char if char.isprintable() or char in "\n\t" else char.encode("unicode_escape").decode() for char in text)
    return "".join(shown)


def unbroken(text: str) -> str:
    """As ``visible``, with line feeds and tabs as blanks: a text that may stand in a line of ours as it is laid out."""
    return visible(text).replace("\n", " ").replace("\t", " ")


def quoted(text: str, *, longest: int = LONGEST) -> str:
    """A text as a quotation, so that it is never read as a word of ours: one line between marks it cannot close."""
    return f"“{one_line(text, longest=longest).translate(_MARKS)}”"


_MARKS = str.maketrans({"“": '"', "”": '"', "„": '"'})
