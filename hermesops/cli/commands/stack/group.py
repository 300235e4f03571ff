"""``hermesops stack``: cells' Pulumi stacks, looked at and run by hand."""

from typing import Annotated

import typer

from hermesops.cli import context
from hermesops.cli.command_group import Noun
from hermesops.cli.commands.stack import state
from hermesops.cli.console import Yes, agree, require_typed_environment, result, say, table
from hermesops.cli.options.cells import All, Cells, ExitCode, Targets, Where, about, choose
from hermesops.cli.options.no_wait import NoWait
from hermesops.cli.options.overrides import (
    ApprovedBy,
    Budget,
    Destroy,
    From,
    Save,
    Share,
    parse_overrides,
    read_saved,
    write_saved,
)
from hermesops.cli.views import shapes
from hermesops.cli.views.cell_runs import report
from hermesops.errors import UsageError
from hermesops.model.cell import parse_cell

app = Noun(no_args_is_help=True)
app.command("rollback-state")(state.rollback_state)
app.command("import")(state.import_)

Cell = Annotated[str, typer.Argument(help="Name of the cell.")]


@app.command("list")
def list_() -> None:
    """List cells from the registry; no state is read."""
    rows = [{"cell": cell.name, "machines": cell.machines} for cell in context.compose().registry.cells.list()]
    table("stack-list", "stacks", ("cell", "machines"), rows, "no cells; the first provision opens one")


@app.command()
def preview(
    cells: Cells = None,
    where: Where = "",
    everything: All = False,
    targets: Targets = None,
    exit_code: ExitCode = False,
    save: Save = None,
) -> int:
    """Show what stack up would change, and what the fleet would cost then; changes nothing.

    With --save the preview of one cell is signed with the operator's key; stack up --from lets just that happen.
    """
    chosen = choose(context.compose(), cells, where, targets, everything=everything)
    if save is None:
        runs, cost = context.run(chosen.preview(targets or ()))
    elif targets:
        raise UsageError("a saved preview is of a whole cell: --save goes without --target")
    else:
        runs, cost, text = context.run(chosen.save_preview())
        write_saved(save, text)
        say(f"signed and saved: hermesops stack up --from {save}")
    return report("stack-preview", runs, remaining=exit_code, cost=cost)


@app.command()
def up(
    cells: Cells = None,
    where: Where = "",
    everything: All = False,
    targets: Targets = None,
    destroy: Destroy = None,
    share: Share = "",
    budget: Budget = "",
    saved: From = None,
    approved_by: ApprovedBy = None,
    no_wait: NoWait = False,
) -> int:
    """Apply the registry's rows to cells. What destroys, changes many or costs much is refused until it is named."""
    composed = context.compose()
    if saved is not None:
        if cells or where or everything or targets or destroy or share or budget or no_wait:
            raise UsageError("--from goes alone: the saved preview says what is to happen")
        from hermesops.app.services.cells import Cells as Chosen

        text = read_saved(saved)
        approval = read_saved(approved_by) if approved_by else ""
        return report("stack-up", context.run(Chosen.previewed(composed, text).up_as(text, approval)))
    if approved_by is not None:
        raise UsageError("--approved-by goes with --from: an approval is of a saved preview")
    named = parse_overrides(destroy, share, budget)
    chosen = choose(composed, cells, where, targets, everything=everything)
    if named.machines:
        require_typed_environment(spared="nothing was destroyed")
    if named.machines and len(chosen.chosen) > 1:
        raise UsageError("--destroy is about machines of one cell; name that cell", hint="hermesops cell list")
    work = chosen.leave_up if no_wait else chosen.up
    return report("stack-up", context.run(work(targets or (), named=named)))


@app.command()
def refresh(
    cells: Cells = None,
    where: Where = "",
    everything: All = False,
    targets: Targets = None,
    preview: Annotated[bool, typer.Option("--preview", help="Only show what would be written.")] = False,
    exit_code: ExitCode = False,
) -> int:
    """Refresh the states of cells from the vendor; no machine is changed."""
    chosen = choose(context.compose(), cells, where, targets, everything=everything)
    if preview:
        return report("stack-refresh-preview", context.run(chosen.preview_refresh(targets or ())), remaining=exit_code)
    return report("stack-refresh", context.run(chosen.refresh(targets or ())), remaining=exit_code)


@app.command()
def destroy(
    cells: Cells = None,
    where: Where = "",
    everything: All = False,
    yes: Yes = False,
) -> int:
    """Remove cells that hold no instance any more."""
    composed = context.compose()
    chosen = choose(composed, cells, where, None, everything=everything)
    names, environment = about(chosen), composed.env.name
    word = chosen.chosen[0].name if len(chosen.chosen) == 1 else f"{len(chosen.chosen)} cells"
    agree(
        f"This removes {names} of environment {environment}.",
        expect=word,
        spared=f"{names} in {environment} is untouched",
        yes=yes,
    )
    return report("stack-destroy", context.run(chosen.destroy()))


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
    result("stack-outputs", {"outputs": values}, shapes.fields(values))
