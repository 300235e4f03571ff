"""Options of commands about one instance: whose it is, and another operator's approval of its change."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli.options.files import read_saved
from hermesops.errors import UsageError

if TYPE_CHECKING:
    from hermesops.operations.kinds import ApprovedList

User = Annotated[str, typer.Argument(help="User id, alias or instance id.")]
ListOption = Annotated[
    Path | None,
    typer.Option("--from", help="With --approved-by: the list that it is on.", show_default=False, dir_okay=False),
]
ApprovedBy = Annotated[
    Path | None,
    typer.Option("--approved-by", help="Another operator's approval of that list.", show_default=False, dir_okay=False),
]


def approved_list(listed: Path | None, approved_by: Path | None) -> "ApprovedList | None":
    """The list and the approval of it that an operator gives; ``None`` without both.

    Raises:
        UsageError: One without the other, or a file cannot be read.
    """
    if listed is None and approved_by is None:
        return None
    if listed is None or approved_by is None:
        raise UsageError("--from LIST and --approved-by APPROVAL go together")
    from hermesops.operations.kinds import ApprovedList

    return ApprovedList(read_saved(listed), read_saved(approved_by))
