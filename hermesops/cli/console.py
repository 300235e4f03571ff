"""The only module that writes to the terminal: results to stdout, narration to stderr.

A result is a table for people or JSON for programs, made from the same data. In text for people, control characters
are made visible: parts of it come from machines, and a terminal obeys such characters. JSON escapes them by itself, and
output of a remote command is passed through unchanged.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from hermesops import errors
from hermesops.base import narration
from hermesops.cli import context
from hermesops.cli.printing import output, terminal
from hermesops.errors import HermesError, Hint, RefusedError
from hermesops.views.failures import failure as failure_shape
from hermesops.wire.foreign_text import unbroken, visible

if TYPE_CHECKING:
    from hermesops.cli.printing.table import Fitted

_mode = output.mode

_CHECK_WIDTH = 100
"""Columns of a table with lines below its rows, where no terminal says how many there are."""

_REMEMBERED = 500
_commands: set[str] = set()
"""Commands that were advised lately, which a terminal emphasises wherever they stand."""

_NOTES = ("note", "reason", "why")
"""Columns of sentences that people wrote."""

_words_in_notes: set[str] = set()
"""Words in such columns that look like a state, which a terminal leaves plain."""

SHAPE_VERSION = 1
"""Version of the JSON shapes; raised when a field changes its meaning or goes."""


Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
Why = Annotated[str, typer.Option("--reason", help="Why; goes into the audit log.")]
Reason = Annotated[str, typer.Option("--reason", help="Why you touch a user's agent; goes into the audit log.")]


def is_json() -> bool:
    """Whether the result is for a program."""
    return _mode.json


def is_quiet() -> bool:
    """Return whether ``--quiet`` switched narration off."""
    return _mode.quiet


def say(line: str) -> None:
    """One line of narration on stderr, in a bulk command behind the name of its subject.

    On a terminal, that of a long step takes the place of the one before it.
    """
    line = narration.with_subject(line)
    if not _mode.quiet and not _drawn(line):
        _to_stderr(line)


def write(text: str) -> None:
    """A piece of a streamed result on stdout, as it comes."""
    clear()
    sys.stdout.write(visible(text))
    sys.stdout.flush()


def write_bytes(data: bytes, *, to_stderr: bool = False) -> None:
    """A piece of a remote command's output, passed through unchanged."""
    clear()
    stream = sys.stderr if to_stderr else sys.stdout
    stream.buffer.write(data)
    stream.flush()


def result(kind: str, data: Mapping[str, object], lines: Sequence[str] = (), *, verbatim: bool = False) -> None:
    """Print a result: JSON with its kind and version, or the lines a person reads.

    Args:
        verbatim: No line is folded at the terminal's width, as those of a log.
    """
    clear()
    if _mode.json:
        print(json.dumps({"kind": kind, "version": SHAPE_VERSION, **data}, indent=2, default=_plain, sort_keys=False))
    else:
        for line in lines:
            print(_shown(line, sys.stdout) if verbatim else _laid_out(line, sys.stdout))
    sys.stdout.flush()


def table(
    kind: str,
    key: str,
    columns: Sequence[str],
    rows: Sequence[Mapping[str, object]],
    empty: str,
    *,
    beside: Mapping[str, object] | None = None,
    below: str = "",
) -> None:
    """Print the rows that were asked for: as JSON with all their fields, or for people as a table of some columns.

    Args:
        kind: Name of the JSON shape.
        key: Name of the rows in it.
        columns: The most important first: a narrow terminal cuts or leaves out the last ones.
        empty: Printed for people instead of a table without rows.
        beside: Further fields of the JSON.
        below: A further column, which stands below its row.

    Raises:
        UsageError: ``--sort`` or ``--filter`` names no column of these rows.
    """
    chosen = chosen_rows(columns, rows)
    if _mode.json:
        result(kind, {key: chosen, **(beside or {})})
        return
    shown = _listed(key, columns, rows, chosen, empty, below)
    result(kind, {}, shown.lines, verbatim=True)  # fitted already
    if shown.left_out:
        wide = "-o wide shows all columns" if _mode.is_list else "a pipe gets all columns"
        say(f"the terminal has no room for {', '.join(shown.left_out)}; {wide}")


def chosen_rows(columns: Sequence[str], rows: Sequence[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """The rows that ``--filter`` lets through, in the order of ``--sort``.

    Raises:
        UsageError: ``--sort`` or ``--filter`` names no column of these rows.
    """
    from hermesops.cli.printing import rows as listed

    return listed.choose(columns, rows, order=_mode.order, filters=_mode.filters)


def shown_columns(columns: Sequence[str], rows: Sequence[Mapping[str, object]]) -> Sequence[str]:
    """The columns of a list that this command prints: all of them with ``-o wide``."""
    from hermesops.cli.printing import rows as listed

    return listed.all_columns(columns, rows) if _mode.wide else columns


def list_lines(key: str, columns: Sequence[str], rows: Sequence[Mapping[str, object]], empty: str) -> list[str]:
    """The lines that ``table`` prints for people; arguments and errors are its own."""
    return _listed(key, columns, rows, chosen_rows(columns, rows), empty, "").lines


def table_lines(
    columns: Sequence[str], rows: Sequence[Mapping[str, object]], empty: str, *, below: str = ""
) -> list[str]:
    """The lines of a table for people, as wide as the terminal at most; arguments as those of ``table``."""
    return _fitted(columns, rows, empty, below).lines


def _listed(
    key: str,
    columns: Sequence[str],
    rows: Sequence[Mapping[str, object]],
    chosen: Sequence[Mapping[str, object]],
    empty: str,
    below: str,
) -> "Fitted":
    from hermesops.cli.printing import rows as listed
    from hermesops.cli.printing import table as tables

    if _mode.only_names:
        name = listed.name_column(key, columns)
        return tables.Fitted([_text(_first(row, (name, *columns))) for row in chosen])
    if rows and not chosen:
        empty = f"none of {narration.counted(len(rows), 'row')} passes the filter"
    return _fitted(shown_columns(columns, chosen), chosen, empty, below)


def _first(row: Mapping[str, object], columns: Sequence[str]) -> object:
    """The first value that a row has in these columns."""
    return next((row[column] for column in columns if row.get(column) is not None), None)


def _fitted(columns: Sequence[str], rows: Sequence[Mapping[str, object]], empty: str, below: str) -> "Fitted":
    from hermesops.cli.printing import table as tables

    if not rows:
        return tables.Fitted([empty])
    columns = [*(column for column in columns if column != below), *([below] if below else [])]
    cells = [[_text(row.get(column)) for column in columns] for row in rows]
    _remember_notes([row[at] for at, column in enumerate(columns) if column in _NOTES for row in cells])
    if _mode.wide or not (width := terminal.width()):
        folds = below and not _mode.wide
        return tables.Fitted(tables.folded(columns, cells, _CHECK_WIDTH) if folds else tables.plain(columns, cells))
    return tables.fitted(columns, cells, width, below=below, commands=_commands)


def _remember_notes(notes: Sequence[str]) -> None:
    """Keep the words of these notes that a terminal must not colour."""
    if notes and terminal.has_colour(sys.stdout):
        from hermesops.cli.printing import palette

        _words_in_notes.clear()
        _words_in_notes.update(words for note in notes for words in palette.words_in_note(note))


def advice(*parts: str | tuple[str, ...] | Hint) -> str:
    """A hint, or the parts of one, as people read it: its commands act on the environment that was chosen."""
    hint, environment = Hint(*parts), context.chosen()
    if len(_commands) > _REMEMBERED:
        _commands.clear()
    _commands.update(hint.commands(environment))
    return hint.text(environment)


def error(failure: HermesError) -> None:
    """Print the error and its hint on stderr; as JSON on stdout too when a program reads."""
    complain(failure)
    if _mode.json:
        result("error", failure_shape(failure))


def complain(failure: HermesError) -> None:
    """Print the error and its hint on stderr only: the result on stdout has it already."""
    at_fault = f"{errors.Parameter(failure.field).option()}: " if failure.field else ""
    _to_stderr(f"error: {at_fault}{failure.message}")
    if failure.hint:
        _to_stderr(f"hint: {advice(failure.hint)}")


def confirm(question: str, *, expect: str) -> bool:
    """Ask on the terminal whether to go on; only the exact word is a yes. Without a terminal the answer is no."""
    if not sys.stdin.isatty():
        return False
    prompt = _laid_out(f"{question} Type {expect} to go on:".lstrip(), sys.stderr)
    print(prompt, end=" ", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip() == expect


def require_typed_environment(*, spared: str) -> None:
    """In production, go on only if the operator typed its name: with ``--env`` in the command, or now.

    A variable that was set yesterday is not consent. ``spared`` says what stays as it is otherwise.

    Raises:
        RefusedError: It was not typed.
    """
    env = context.environment()
    if not env.is_production or context.why_chosen() == "--env" or confirm("", expect=env.name):
        return
    raise RefusedError(
        f"{env.name} was not named, {context.why_chosen()} chose it: {spared}",
        hint=f"type its name in the command itself: hermesops --env {env.name} …",
    )


def agree(question: str, *, expect: str, spared: str, yes: bool, dry_run: bool = False) -> None:
    """Ask the operator's consent; in production, its name must be typed as well. A dry run needs none.

    Where nobody is asked, with ``--yes`` or without a terminal, the question is narrated: it says what is done.

    Args:
        expect: The word that must be typed.
        spared: What stays as it is without consent.

    Raises:
        RefusedError: There was no consent.
    """
    if dry_run:
        return
    if yes or not sys.stdin.isatty():
        say(question)
    if not yes and not confirm(question, expect=expect):
        raise RefusedError(f"not confirmed: {spared}", hint="--yes confirms without a terminal")
    require_typed_environment(spared=spared)


def require_reason(reason: str, *command: str) -> None:
    """Go on only with a reason for the audit log; ``command`` is its words without it, for the hint.

    Raises:
        UsageError: There is no reason.
    """
    errors.require_reason(reason, *command)


def _to_stderr(line: str) -> None:
    """Write a line; a command goes on when it cannot be written: see ``streams``."""
    clear()
    print(_laid_out(line, sys.stderr), file=sys.stderr, flush=True)


def _drawn(line: str) -> bool:
    """Draw the line of a long step over the one before it, where a terminal can."""
    if type(line) is str:
        return False
    from hermesops.base.progress import ProgressLine
    from hermesops.cli.printing import progress_line

    if not (isinstance(line, ProgressLine) and progress_line.draw(line)):
        return False
    _mode.is_drawn = True
    return True


def clear() -> None:
    """Take the line of a long step off the terminal, before anything else is written."""
    if _mode.is_drawn:
        from hermesops.cli.printing import progress_line

        _mode.is_drawn = False
        progress_line.clear()


def fold(line: str, stream: TextIO) -> list[str]:
    """A line as lines of the terminal that a stream is; as it is where that is none."""
    width = terminal.width(stream)
    if not width or len(line) <= width // 2:
        return [line]
    from hermesops.cli.printing import prose

    return [piece for each in visible(line).split("\n") for piece in prose.folded(each, width, _commands)]


def _laid_out(line: str, stream: TextIO) -> str:
    return "\n".join(_shown(piece, stream) for piece in fold(line, stream))


def _shown(line: str, stream: TextIO) -> str:
    """A line without control sequences, except our own styles where the stream shows them."""
    line = visible(line)
    if _mode.quiet or _mode.json or not terminal.has_colour(stream):
        return line
    from hermesops.cli.printing import palette

    return palette.painted(line, _commands, _words_in_notes)


def _plain(value: object) -> str:
    return advice(value) if isinstance(value, Hint) else str(value)


def _words(value: object) -> str:
    """A value as people read it in a table or a field."""
    from hermesops.cli.printing import rows as listed

    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case _:
            return listed.for_people(_plain(value))


def _text(value: object) -> str:
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    return unbroken(_words(value)) or "-"
