"""What the commands about one, several or all cells share: how cells and machines are named."""

from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.errors import UsageError

if TYPE_CHECKING:
    from hermesops.app import Container
    from hermesops.app.services.cells import ChosenCells

Cells = Annotated[list[str] | None, typer.Argument(help="Names of cells.", show_default=False)]
Where = Annotated[str, typer.Option(help="Cells with region=…,plan=…,cell=…", show_default=False)]
All = Annotated[bool, typer.Option("--all", help="Every cell.")]
Targets = Annotated[
    list[str] | None,
    typer.Option("--target", help="Only this machine of the cell; may be repeated.", show_default=False),
]
ExitCode = Annotated[bool, typer.Option("--exit-code", help="Exit 7 when something would change, or did.")]


def choose(
    composed: "Container", names: list[str] | None, where: str, targets: list[str] | None, *, everything: bool
) -> "ChosenCells":
    """The cells that are meant.

    Raises:
        UsageError: None is meant, one is not there, or machines of several cells are.
    """
    chosen = composed.cell_services.select(names=names or (), where=where, everything=everything)
    if targets and len(chosen.chosen) > 1:
        raise UsageError("--target is about machines of one cell; name that cell", hint="hermesops cell show CELL")
    return chosen


def about(cells: "ChosenCells") -> str:
    """The cells as a sentence names them."""
    return ", ".join(cell.name for cell in cells.chosen)
