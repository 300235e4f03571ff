"""Options that choose how a result is printed, and their values in this command."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

import typer


class Format(StrEnum):
    """Values of ``--output`` for commands that print one result."""

    JSON = "json"


class ListFormat(StrEnum):
    """Values of ``--output`` for commands that print a list."""

    WIDE = "wide"
    JSON = "json"
    NAME = "name"


@dataclass
class Mode:
    """The chosen form; ``order`` and ``filters`` are as ``rows.choose`` takes them.

    ``is_list`` is whether the command takes the options of lists, ``is_drawn`` whether the line of a long step stands
    on the terminal.
    """

    is_list: bool = False
    json: bool = False
    quiet: bool = False
    wide: bool = False
    only_names: bool = False
    order: str = ""
    filters: list[str] = field(default_factory=list)
    is_drawn: bool = False


mode = Mode()


def _set_json(value: bool) -> bool:
    mode.json = mode.json or value
    return value


def _set_quiet(value: bool) -> bool:
    mode.quiet = mode.quiet or value
    return value


def _set_format(value: Format | None) -> Format | None:
    mode.json = mode.json or value is Format.JSON
    return value


def _set_list_format(value: ListFormat | None) -> ListFormat | None:
    mode.is_list = True
    mode.json = mode.json or value is ListFormat.JSON
    mode.wide = value is ListFormat.WIDE
    mode.only_names = value is ListFormat.NAME
    return value


def _set_order(value: str) -> str:
    mode.order = value
    return value


def _set_filters(value: list[str] | None) -> list[str] | None:
    mode.filters = list(value or ())
    return value


def _set_timeout(value: str) -> str:
    if value:
        from hermesops.base.typed_values import seconds
        from hermesops.cli.options.time_limit import limit

        limit.begin(seconds(value, "--timeout"))
    return value


Timeout = Annotated[
    str,
    typer.Option(
        "--timeout",
        callback=_set_timeout,
        help="Stop waiting after this time, as 90s or 10m, and end with 4; nothing is undone, and the output names the "
        "command that follows it.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", callback=_set_json, help="As -o json.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", callback=_set_quiet, help="No narration on stderr.")]
Output = Annotated[
    Format | None,
    typer.Option("--output", "-o", callback=_set_format, help="Print the result as JSON.", show_default=False),
]
ListOutput = Annotated[
    ListFormat | None,
    typer.Option(
        "--output",
        "-o",
        callback=_set_list_format,
        help="wide: all columns, none cut; json; name: only names, one a line.",
        show_default=False,
    ),
]
Sort = Annotated[
    str,
    typer.Option(
        "--sort",
        metavar="COLUMN",
        callback=_set_order,
        help="Sort by a column, also one of -o wide; -COLUMN: the greatest first.",
        show_default=False,
    ),
]
Filter = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        metavar="COLUMN=TEXT",
        callback=_set_filters,
        help="Only rows with this text in the column, or with != without it; * is any text; may be repeated.",
        show_default=False,
    ),
]
