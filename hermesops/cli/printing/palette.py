"""The palette: words of the output with a meaning, and the style of each.

Terminals do not adapt a colour to a light background: xterm's own yellow has a contrast of 1.7 to white. So colours are
those of the fixed part of the palette of 256 that can be read on black and on white. A style never stands alone: what
is coloured is the word that says the same.

Source: ECMA-48, 8.3.117 (SGR); xterm's ``ctlseqs``, ``CSI 38;5;Ps m``, and its ``256colres.pl`` for the fixed colours.
"""

import functools
import re
from collections.abc import Collection
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text


class Style(StrEnum):
    """Styles of words on a terminal, by the names that rich gives them."""

    GOOD = "color(28)"
    """Green."""
    BUSY = "color(31)"
    """Blue, towards cyan."""
    WARNING = "color(130)"
    """Orange, towards brown."""
    UNKNOWN = "color(133)"
    """Magenta."""
    BAD = "bold color(160)"
    """Red."""
    PAST = "dim"
    STRONG = "bold"
    """Headings, and commands that are next."""
    LEAD = "bold color(31)"


_CODES = {"bold": "1", "dim": "2"}
_NUMBERED = re.compile(r"color\((\d+)\)")
_END = "\x1b[0m"

_MEANINGS = {
    Style.GOOD: "active answered applied connected done good granted healthy holds ok pass passed ready resolved "
    "running succeeded trialing up valid whole",
    Style.BUSY: "aborting activating claimed converging creating deleting draining fetching installing pending "
    "preparing provisioning queued rebooting rebuilding resizing resuming rolling_back soaking starting stopping "
    "suspending updating waiting",
    Style.WARNING: "acknowledged deferred degraded differs ending expiring inconclusive incomplete interrupted late "
    "not_confirmed outdated past_due paused restarting set_aside silent suspended ticket unpaid warning",
    Style.UNKNOWN: "not_exercised not_known unconfirmed unknown",
    Style.BAD: "broken critical damaged dead down error expired fail failed failing firing halted in_error lost "
    "missing overdue page refused revoked timed_out unreachable",
    Style.PAST: "abandoned aborted canceled cancelled deleted dismissed ended incomplete_expired info kept left_out "
    "lifted none not_needed not_taken off past rolled_back silenced skipped stopped superseded terminated",
}

WORDS = {word: style for style, words in _MEANINGS.items() for word in words.split()}
"""Style of each word; blanks may stand for its underscores."""

_LEADS = {"error": Style.BAD, "hint": Style.LEAD, "warning": Style.WARNING}
"""Words that begin a line, before a colon."""

_SEVERITIES = ("critical", "warning", "unknown", "info", "page", "ticket", "none")

_HEADING = re.compile(r"[A-Z][A-Z0-9 ]*  [A-Z0-9 ]*[A-Z][A-Z0-9 ]*")


@functools.cache
def _meaningful() -> re.Pattern[str]:
    """A word where it says a state: as a cell of a table, behind a colon or a number that is not 0, in ``is done:``.

    The first cell is a name, unless it says how bad something is.
    """
    words = "|".join(word.replace("_", "[_ ]") for word in sorted(WORDS, key=len, reverse=True))
    first = rf"^(?=(?:{'|'.join(_SEVERITIES)})  )"
    begin = rf"{first}|(?<=  )|(?<=: )|(?<![\d.])(?<!of )[1-9]\d* (?:of \d+ )?| is (?=\w+(?: \w+)?:)"
    return re.compile(rf"(?:{begin})(?P<word>{words})(?=$|  |[:;,.)]| \(| by | \d)")


def spans(line: str, commands: Collection[str] = (), notes: Collection[str] = ()) -> list[tuple[int, int, Style]]:
    """Parts of a line that have a style, in order and apart: where each begins and ends.

    Args:
        commands: Commands to emphasise where they stand in the line.
        notes: Beginnings of words of people, as ``words_in_note`` finds them: no state, so without a style.
    """
    if _HEADING.fullmatch(line):
        return [(0, len(line), Style.STRONG)]
    lead, colon, _ = line.partition(": ")
    styled = [(0, len(lead) + 1, _LEADS[lead])] if colon and lead in _LEADS else []
    longest_first = sorted((command for command in commands if command in line), key=len, reverse=True)
    styled += [(at := line.index(command), at + len(command), Style.STRONG) for command in longest_first]
    matches = _meaningful().finditer(line)
    states = [match for match in matches if not any(line.startswith(note, match.start("word")) for note in notes)]
    styled += [(*match.span("word"), WORDS[match["word"].replace(" ", "_")]) for match in states]
    return _apart(styled)


def words_in_note(note: str) -> list[str]:
    """The words of a person's note that look like a state, each with the word behind it, as ``spans`` takes them."""
    line = f"  {note}"
    return [line[begin:end] + " ".join(line[end:].split(" ")[:2]) for begin, end, _ in spans(line)]


def painted(line: str, commands: Collection[str] = (), notes: Collection[str] = ()) -> str:
    """A line with the escape sequences of its styles; arguments as those of ``spans``."""
    pieces, at = [], 0
    for begin, end, style in spans(line, commands, notes):
        pieces += [line[at:begin], f"\x1b[{_codes(style)}m{line[begin:end]}{_END}"]
        at = end
    return "".join([*pieces, line[at:]])


def _codes(style: Style) -> str:
    """The parameters of a style's escape sequence."""
    return ";".join(_NUMBERED.sub(r"38;5;\1", _CODES.get(word, word)) for word in style.split())


def drawn(line: str) -> "Text":
    """A line with its styles, for pictures that rich redraws."""
    from rich.text import Text

    text = Text(line)
    for begin, end, style in spans(line):
        text.stylize(style.value, begin, end)
    return text


def _apart(spans: list[tuple[int, int, Style]]) -> list[tuple[int, int, Style]]:
    """Spans in order; of those that overlap, the one that was found first."""
    separate: list[tuple[int, int, Style]] = []
    for begin, end, style in spans:
        if all(end <= span[0] or begin >= span[1] for span in separate):
            separate.append((begin, end, style))
    return sorted(separate)
