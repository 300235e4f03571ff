"""Options of commands about cells and their stacks: which cells, and which limits of a run may be exceeded."""

from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.errors import Hint, UsageError

if TYPE_CHECKING:
    from hermesops.agents.cells.changes.guard import Overrides
    from hermesops.agents.cells.service import ChosenCells
    from hermesops.app import Container

Cells = Annotated[list[str] | None, typer.Argument(help="Names of cells.", show_default=False)]
Stacks = Annotated[
    list[str] | None,
    typer.Argument(metavar="[CELLS]...|platform", help="Names of cells, or platform.", show_default=False),
]
Where = Annotated[str, typer.Option(help="Cells with region=…,plan=…,cell=…", show_default=False)]
All = Annotated[bool, typer.Option("--all", help="Every cell.")]
Targets = Annotated[
    list[str] | None,
    typer.Option("--target", help="Only this machine of the cell; may be repeated.", show_default=False),
]
ExitCode = Annotated[bool, typer.Option("--exit-code", help="Exit 7 when something would change, or did.")]

Destroy = Annotated[
    list[str] | None,
    typer.Option("--destroy", help="This machine may be deleted or replaced; may be repeated.", show_default=False),
]
Share = Annotated[
    str, typer.Option("--share", help="Part of the cell that may be touched, as 60%.", show_default=False)
]
Budget = Annotated[
    str, typer.Option("--budget", help="US dollars a month that everything may cost.", show_default=False)
]
Save = Annotated[
    Path | None, typer.Option("--save", help="Sign it and write it to this file.", show_default=False, dir_okay=False)
]
From = Annotated[
    Path | None,
    typer.Option("--from", help="Let this saved preview happen, and nothing else.", show_default=False, dir_okay=False),
]
ApprovedBy = Annotated[
    Path | None,
    typer.Option(
        "--approved-by", help="With --from: another operator's approval of it.", show_default=False, dir_okay=False
    ),
]


def choose(
    container: "Container", names: list[str] | None, where: str, targets: list[str] | None, *, everything: bool
) -> "ChosenCells":
    """The cells that the options choose.

    Raises:
        UsageError: They choose none, one that does not exist, or machines of several cells.
    """
    chosen = container.choose_cells(names=names or (), where=where, everything=everything)
    if targets and len(chosen.chosen) > 1:
        raise UsageError("--target is about machines of one cell; name that cell", hint=Hint(("cell", "show", "CELL")))
    return chosen


def parse_overrides(destroy: list[str] | None, share: str, budget: str) -> "Overrides":
    """Parse the limits that an operator overrides: machines to destroy, share and budget.

    Raises:
        UsageError: A share or a budget is not one.
    """
    from hermesops.agents.cells.changes.guard import Overrides
    from hermesops.model.ids import MachineName

    return Overrides(
        frozenset(MachineName(name) for name in destroy or ()),
        _share(share) if share else None,
        _dollars(budget) if budget else None,
    )


def _share(text: str) -> float:
    number = _number(text.removesuffix("%"), f"--share {text}: a percentage, as 60%")
    if not text.endswith("%") or not 0 < number <= 100:  # noqa: PLR2004 - per cent
        raise UsageError(f"--share {text}: a percentage above 0 % and up to 100 %, as 60%")
    return float(number / 100)


def _dollars(text: str) -> Decimal:
    number = _number(text.removeprefix("$"), f"--budget {text}: dollars, as 900 or 900.50")
    if number < 0:
        raise UsageError(f"--budget {text}: not below 0")
    return number


def _number(text: str, refusal: str) -> Decimal:
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise UsageError(refusal) from None
    if not number.is_finite():
        raise UsageError(refusal)
    return number
