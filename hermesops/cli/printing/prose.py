"""Sentences on a terminal: folded at its width below a hanging indent, never inside something that is copied. Pure."""

import re
from collections.abc import Collection

_INDENT = 4
"""Columns of the lines that continue a sentence."""

_COMMAND_LINE = re.compile(r"\s*(?:or )?(?:\d+\. )?\$ ")
"""The beginning of a line that is a command: it stays one line, however long."""

_FIELD = re.compile(r" *\S+(?: \S+)* {2,}(?=\S)")
"""A name before its value: the value continues below itself."""

_COPIED = re.compile(
    r"`[^`]+`|'[^']+'|\d{4}-\d\d-\d\d \d\d:\d\d(?::\d\d)?Z"
    r"|[\d:.]+ (?:s|min|h|d|%|[KMG]B|UTC)\b"
    r"|(?:(?:apt-get|aws|git|make|pip|ssh|sudo|systemctl|uv) )*\S+(?: --?[A-Za-z][\w-]*(?:[ =](?!-)\S+)?)+"
)
"""Copied as a whole: between backticks or quotes, times, numbers with units, programs with options."""

_LONGEST_COPIED = 60

_KEPT_TOGETHER = "\N{NO-BREAK SPACE}"

_BLANK = re.compile("(?<! ) (?! )")
"""A blank at which a line may be folded; several stand between columns."""


def folded(line: str, width: int, commands: Collection[str] = ()) -> list[str]:
    """A line as lines of a terminal: words stay whole, and so do commands, options with their values, and quotations.

    Args:
        width: Columns of the terminal.
        commands: Commands that may stand in the line.
    """
    if _columns(line) <= width or _COMMAND_LINE.match(line):
        return [line]
    indent = " " * _hanging(line, width)
    lines: list[str] = []
    for word in _BLANK.split(_kept(line, commands)):
        if lines and _columns(lines[-1]) + 1 + _columns(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(f"{indent}{word}" if lines else word)
    return [each.replace(_KEPT_TOGETHER, " ") for each in lines]


def _hanging(line: str, width: int) -> int:
    leading = len(line) - len(line.lstrip(" "))
    field = _FIELD.match(line)
    if field and field.end() <= width // 3:
        return field.end()
    return leading or _INDENT


def _kept(line: str, commands: Collection[str]) -> str:
    """Replace the blanks of a line at which it must not be folded by other characters."""
    for command in sorted((command for command in commands if command in line), key=len, reverse=True):
        line = line.replace(command, command.replace(" ", _KEPT_TOGETHER))
    return _COPIED.sub(_together, line)


def _together(match: re.Match[str]) -> str:
    return match[0].replace(" ", _KEPT_TOGETHER) if len(match[0]) <= _LONGEST_COPIED else match[0]


def _columns(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
