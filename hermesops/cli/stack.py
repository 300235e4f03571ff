"""``hermesops stack``: a cell's Pulumi stack, looked at and run by hand."""

from typing import Annotated

import typer

from hermesops.cli import context, render, stack_state
from hermesops.cli.console import Yes, confirm, result, table
from hermesops.cli.no_wait import NoWait, say_left
from hermesops.cli.noun import Noun
from hermesops.errors import CHANGES_REMAIN, RefusedError
from hermesops.model.cell import parse_cell
from hermesops.model.stack import ChangeKind

app = Noun(help="Pulumi stacks of cells.", no_args_is_help=True)
app.command("rollback-state")(stack_state.rollback_state)
app.command("import")(stack_state.import_)

Cell = Annotated[str, typer.Argument(help="Name of the cell.")]


@app.command("list")
def list_() -> None:
    """List cells from the registry; no state is read."""
    rows = [{"cell": cell.name, "machines": cell.machines} for cell in context.compose().registry.list_cells()]
    table("stack-list", "stacks", ("cell", "machines"), rows, "no cells; the first provision opens one")


@app.command()
def preview(
    cell: Cell,
    exit_code: Annotated[bool, typer.Option("--exit-code", help="Exit 7 when something would change.")] = False,
) -> int:
    """Show what bringing the cell to its rows would change; nothing does."""
    seen = context.run(context.compose().cell_stacks.preview(parse_cell(cell)))
    changes = [render.change(one) for one in seen.changes if one.kind is not ChangeKind.SAME]
    table("stack-preview", "changes", ("kind", "type", "name", "properties"), changes, f"{cell}: no changes")
    return CHANGES_REMAIN if changes and exit_code else 0


@app.command()
def up(
    cell: Cell,
    no_wait: NoWait = False,
) -> None:
    """Bring the cell to its rows; destroys nothing that no recorded operation names."""
    from hermesops.app.stack_ups import StackUps

    composed, name = context.compose(), parse_cell(cell)
    ups = StackUps(composed)
    if no_wait:
        say_left("stack-up", context.run(ups.leave(name)))
        return
    done = context.run(ups.run(name, lambda: composed.cell_stacks.up(name)))
    changes = [render.change(one) for one in done.changes if one.kind is not ChangeKind.SAME]
    table("stack-up", "changes", ("kind", "type", "name", "properties"), changes, f"{cell}: no changes")


@app.command()
def destroy(
    cell: Cell,
    yes: Yes = False,
) -> None:
    """Remove a cell that holds no instance any more."""
    parse_cell(cell)
    composed = context.compose()
    name = composed.env.name
    if not yes and not confirm(f"This removes cell {cell} of environment {name}.", expect=cell):
        raise RefusedError(f"not confirmed: {cell} in {name} is untouched", hint="--yes confirms without a terminal")
    done = context.run(composed.cell_stacks.destroy(parse_cell(cell)))
    changes = [render.change(one) for one in done.changes]
    table("stack-destroy", "changes", ("kind", "type", "name"), changes, f"{cell}: nothing was there")


@app.command()
def export(cell: Cell) -> None:
    """Print the stack's deployment as Pulumi exports it; secrets stay encrypted."""
    import json

    from hermesops.cli.console import write

    deployment = context.run(context.compose().cell_stacks.export(parse_cell(cell)))
    write(json.dumps(deployment, indent=4) + "\n")


@app.command()
def outputs(cell: Cell) -> None:
    """Print the stack's outputs."""
    values = context.run(context.compose().cell_stacks.outputs(parse_cell(cell)))
    result("stack-outputs", {"outputs": values}, render.fields(values))
