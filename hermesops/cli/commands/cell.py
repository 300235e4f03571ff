"""``hermesops cell``: cells in the registry, with their plans, free room and machines."""

from typing import Annotated

import typer

from hermesops.cli import context
from hermesops.cli.console import result, table
from hermesops.cli.groups.noun import Noun
from hermesops.cli.options.cells import ExitCode, Where
from hermesops.cli.views.cells import cells
from hermesops.errors import CHANGES_REMAIN
from hermesops.views.agents import cells as shapes

app = Noun(no_args_is_help=True)


@app.command("list")
def list_(where: Where = "") -> None:
    """List cells from the registry; no state is read."""
    container = context.compose()
    size = container.env.settings.cell_size
    rows = [shapes.cell(row, size=size) for row in container.cells.list(where)]
    columns = ("cell", "region", "plans", "machines", "room", "last_up")
    table("cell-list", "cells", columns, rows, "no cells; the first provision opens one")


@app.command()
def show(
    cell: Annotated[str, typer.Argument(help="Name of the cell.")],
    preview: Annotated[bool, typer.Option("--preview", help="Also count what its next run would change.")] = False,
    exit_code: ExitCode = False,
) -> int:
    """Show a cell: its plans, free room, machines, lease holder, and pending changes."""
    container = context.compose()
    cell_view = container.cells.view(cell)
    pending = context.run(container.cell_stacks.preview(cell_view.cell.name)).changes if preview else None
    shown = shapes.show(cell_view, size=container.env.settings.cell_size, pending=pending)
    result("cell", {"cell": shown}, cells.lines(shown))
    return CHANGES_REMAIN if exit_code and shown["pending_changes"] else 0
