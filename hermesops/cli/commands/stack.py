"""``hermesops stack``: Pulumi stacks of cells and of the platform: preview, run, refresh, destroy and repair them."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hermesops.base.narration import counted
from hermesops.cli import context
from hermesops.cli.console import Why, Yes, advice, agree, require_typed_environment, result, say, table, write
from hermesops.cli.groups.noun import Noun
from hermesops.cli.options import platform_stack
from hermesops.cli.options.cells import (
    All,
    ApprovedBy,
    Budget,
    Cells,
    Destroy,
    ExitCode,
    From,
    Save,
    Share,
    Stacks,
    Targets,
    Where,
    choose,
    parse_overrides,
)
from hermesops.cli.options.dry_run import DryRun
from hermesops.cli.options.files import read_bytes, read_saved, write_saved
from hermesops.cli.options.instance import NoWait
from hermesops.cli.printing.fields import field_lines
from hermesops.cli.views.cells.cells import report
from hermesops.errors import Hint, UsageError
from hermesops.model.fleet.cell import PLATFORM, parse_cell
from hermesops.model.ids import CellName
from hermesops.views import stacks as stack_shapes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermesops.agents.cells.bulk import CellRun
    from hermesops.agents.cells.cost.bill import Cost

app = Noun(no_args_is_help=True)

Cell = Annotated[str, typer.Argument(help="Name of the cell.")]
Named = Annotated[str, typer.Argument(metavar="CELL|platform", help="Name of the cell, or platform.")]


@app.command("rollback-state")
def rollback_state(
    cell: Cell,
    to: Annotated[str, typer.Option("--to", help="Which copy; the newest sound one that differs if left out.")] = "",
    list_: Annotated[bool, typer.Option("--list", help="Only show the copies, newest first.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many copies --list shows.")] = 20,
    reason: Why = "",
    yes: Yes = False,
) -> None:
    """Restore a copy of the cell's Pulumi state; the current state becomes a copy, machines stay as they are."""
    container = context.compose()
    name = container.cells.get(cell).name
    if list_:
        copies = context.run(container.cell_states.versions(name, limit=limit))
        rows = [stack_shapes.state_version(version) for version in copies]
        columns = ("version", "at", "what", "resources", "note")
        table("state-versions", "versions", columns, rows, f"{cell}: no copies of its state")
        return
    chosen = f"copy {to}" if to else "its newest sound copy that differs"
    _ask(container.env.name, cell, f"replaces the state by {chosen}", yes=yes)
    put = context.run(container.cell_states.restore(name, to, why=reason or "stack rollback-state"))
    shown = stack_shapes.state_version(put)
    lines = [f"{cell}: the state of {shown['at']} is back ({put.resources} resources)", _next(cell)]
    result("stack-rollback-state", {"cell": cell, **shown}, lines)


@app.command("import")
def import_(
    cell: Cell,
    file: Annotated[
        Path | None, typer.Argument(help="What `stack export` printed: it replaces the state.", show_default=False)
    ] = None,
    machines: Annotated[
        list[str] | None,
        typer.Option("--machine", help="NAME=ID of a machine to take in; may be repeated.", show_default=False),
    ] = None,
    reason: Why = "",
    yes: Yes = False,
) -> None:
    """Take machines into the cell's stack by their ids, or replace its state by an exported one. No machine is changed.

    The id of a machine that is taken in must be the one in the cell's rows: `fleet repair adopt` changes which instance
    a machine belongs to. A state that is replaced becomes a copy, which `stack rollback-state` restores.
    """
    name = parse_cell(cell)
    if (file is None) is (not machines):
        raise UsageError(
            "either a file that `stack export` printed, or --machine NAME=ID", hint=Hint(("fleet", "drift"))
        )
    if file is None:
        _take_in(name, machines or [], reason)
        return
    container = context.compose()
    container.cells.get(name)
    try:
        document = state_in(file.read_bytes(), str(file))
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from error
    _ask(container.env.name, cell, f"replaces the state by {file}", yes=yes)
    context.run(container.cell_states.take(name, document, why=reason or "stack import"))
    resources = len(document["deployment"].get("resources") or ())
    lines = [f"{cell}: the state is that of {file} ({resources} resources)", _next(cell)]
    result("stack-import", {"cell": cell, "resources": resources}, lines)


@app.command("list")
def list_() -> None:
    """List cells from the registry; no state is read."""
    rows = [{"cell": cell.name, "machines": cell.machines} for cell in context.compose().cells.list()]
    table("stack-list", "stacks", ("cell", "machines"), rows, "no cells; the first provision opens one")


@app.command()
def preview(
    cells: Stacks = None,
    where: Where = "",
    everything: All = False,
    targets: Targets = None,
    exit_code: ExitCode = False,
    save: Save = None,
) -> int:
    """Show the changes of stack up, and the fleet's cost afterwards; changes nothing.

    The word platform in place of cells means the shared platform of the environment.
    With --save the preview of one stack is signed with the operator's key; stack up --from lets just that happen.
    """
    if platform_stack.is_platform(cells, where=where, all=everything, target=targets):
        return platform_stack.preview(remaining=exit_code, save=save)
    chosen = choose(context.compose(), cells, where, targets, everything=everything)
    if save is None:
        runs, cost = context.run(chosen.preview(targets or ()))
    elif targets:
        raise UsageError("a saved preview is of a whole cell: --save goes without --target")
    else:
        runs, cost, text = context.run(chosen.save_preview())
        write_saved(save, text)
        say(advice("signed and saved:", ("stack", "up", "--from", str(save))))
    return report("stack-preview", runs, remaining=exit_code, cost=cost)


@app.command()
def up(
    cells: Stacks = None,
    where: Where = "",
    everything: All = False,
    targets: Targets = None,
    destroy: Destroy = None,
    share: Share = "",
    budget: Budget = "",
    saved: From = None,
    approved_by: ApprovedBy = None,
    no_wait: NoWait = False,
    dry_run: DryRun = False,
) -> int:
    """Apply the registry's rows to cells. Runs that destroy, change many or cost much are refused until named.

    The word platform in place of cells brings the shared platform of the environment up, services included; nothing of
    it is ever destroyed. Killed anywhere, the same command continues.
    """
    if platform_stack.is_platform(
        cells,
        where=where,
        all=everything,
        target=targets,
        destroy=destroy,
        share=share,
        budget=budget,
        no_wait=no_wait,
        **{"from": saved},
    ):
        return platform_stack.preview(remaining=False, save=None) if dry_run else platform_stack.up()
    container = context.compose()
    if saved is not None:
        if cells or where or everything or targets or destroy or share or budget or no_wait:
            raise UsageError("--from goes alone: the saved preview says what is to happen")
        return _up_saved(saved, approved_by, dry_run=dry_run)
    if approved_by is not None:
        raise UsageError("--approved-by goes with --from: an approval is of a saved preview")
    named = parse_overrides(destroy, share, budget)
    chosen = choose(container, cells, where, targets, everything=everything)
    if dry_run:
        runs, cost = context.run(chosen.preview_up(targets or (), named=named))
        return _report_dry_run(runs, cost)
    if named.machines:
        require_typed_environment(spared="nothing was destroyed")
    if named.machines and len(chosen.chosen) > 1:
        raise UsageError("--destroy is about machines of one cell; name that cell", hint=Hint(("cell", "list")))
    work = chosen.leave_up if no_wait else chosen.up
    return report("stack-up", context.run(work(targets or (), named=named)))


@app.command(waits=True)
def refresh(
    cells: Stacks = None,
    where: Where = "",
    everything: All = False,
    targets: Targets = None,
    preview: Annotated[bool, typer.Option("--preview", help="Only show what would be written.")] = False,
    exit_code: ExitCode = False,
) -> int:
    """Refresh the states of cells, or of the platform, from the vendor; no machine is changed."""
    if platform_stack.is_platform(cells, where=where, all=everything, target=targets):
        return platform_stack.refresh(only_preview=preview, remaining=exit_code)
    chosen = choose(context.compose(), cells, where, targets, everything=everything)
    if preview:
        return report("stack-refresh-preview", context.run(chosen.preview_refresh(targets or ())), remaining=exit_code)
    return report("stack-refresh", context.run(chosen.refresh(targets or ())), remaining=exit_code)


@app.command(waits=True)
def destroy(
    cells: Cells = None,
    where: Where = "",
    everything: All = False,
    yes: Yes = False,
) -> int:
    """Remove cells that hold no instance any more."""
    container = context.compose()
    chosen = choose(container, cells, where, None, everything=everything)
    names, environment = ", ".join(cell.name for cell in chosen.chosen), container.env.name
    word = chosen.chosen[0].name if len(chosen.chosen) == 1 else f"{len(chosen.chosen)} cells"
    agree(
        f"This removes {names} of environment {environment}.",
        expect=word,
        spared=f"{names} in {environment} is untouched",
        yes=yes,
    )
    return report("stack-destroy", context.run(chosen.destroy()))


@app.command()
def export(cell: Named) -> None:
    """Print the stack's deployment as Pulumi exports it; secrets stay encrypted."""
    if platform_stack.is_platform([cell]):
        platform_stack.export()
        return
    deployment = context.run(context.compose().cell_stacks.export(parse_cell(cell)))
    write(json.dumps(deployment, indent=4) + "\n")


@app.command()
def baseline(
    save: Annotated[
        Path | None, typer.Option("--save", help="Write it to this file.", show_default=False, dir_okay=False)
    ] = None,
) -> None:
    """Print what all programs register, without names of machines, ids and secrets; `stack compare` reads it.

    It reads settings and the registry's rows, no state and no vendor. Main's pipeline makes one for pull requests.
    """
    from hermesops.infra.stacks.baseline import to_text

    registered = context.compose().baselines.take()
    if save is None:
        write(to_text(registered))
        return
    write_saved(save, to_text(registered))
    say(
        advice(
            f"{counted(len(registered.cells), 'cell')};",
            ("stack", "compare", str(save)),
            "shows what other code would change",
        )
    )


@app.command()
def compare(
    file: Annotated[Path, typer.Argument(help="What `stack baseline` printed.", show_default=False)],
    exit_code: ExitCode = False,
) -> int:
    """Show the changes by this code and these settings, compared with a baseline; needs no registry and no secret.

    It says what it cannot know, such as drift: `stack preview` shows that before anything is applied.
    """
    from hermesops.cli.views.cells import baselines
    from hermesops.infra.stacks.baseline import LARGEST, of_text

    container = context.compose()
    text = read_bytes(str(file), most=LARGEST)
    before = of_text(text, str(file), environment=container.env.name)
    return baselines.report(before, container.baselines.compare(before), remaining=exit_code)


@app.command()
def outputs(cell: Named) -> None:
    """Print the stack's outputs; those of the platform have the same names in every environment."""
    if platform_stack.is_platform([cell]):
        platform_stack.outputs()
        return
    values = context.run(context.compose().cell_stacks.outputs(parse_cell(cell)))
    result("stack-outputs", {"outputs": values}, field_lines(values))


def _up_saved(saved: Path, approved_by: Path | None, *, dry_run: bool) -> int:
    """Run, or preview, the saved preview of a cell or of the platform."""
    container, text = context.compose(), read_saved(saved)
    approval = read_saved(approved_by) if approved_by else ""
    preview, _ = container.saved_previews.open(text)
    if preview.cell == PLATFORM:
        approved = container.saved_previews.approved(text, approval)
        say(f"{PLATFORM}: {approved}")
        if dry_run:
            return platform_stack.preview(remaining=False, save=None)
        return platform_stack.up(approved.preview)
    if not dry_run:
        return report("stack-up", context.run(container.choose_cells(names=[preview.cell]).up_as(text, approval)))
    run, cost, cell_approved = context.run(container.stack_ups.preview_saved(text, approval))
    say(f"{run.cell}: {cell_approved}")
    return _report_dry_run([run], cost, str(cell_approved))


def _report_dry_run(runs: "Sequence[CellRun]", cost: "Cost", approved: str = "") -> int:
    code = report("stack-up-preview", runs, cost=cost, beside={"approved": approved or None})
    say("dry run: nothing was changed")
    return code


def _take_in(cell: CellName, machines: list[str], reason: str) -> None:
    from hermesops.agents.cells.stack.state_repair import import_machines, parse_imports

    container = context.compose()
    machine_ids = parse_imports(machines, container.env.name)

    async def work() -> tuple[str, ...]:
        async with container.vendor() as client:
            return await import_machines(container.cell_stacks, client, cell, machine_ids, why=reason or "stack import")

    new = context.run(work())
    rows = [stack_shapes.imported(name, id_, is_new=name in new) for name, id_ in machine_ids.items()]
    lines = [
        f"{cell}: {row['name']} {'is in its stack now' if row['imported'] else 'was in its stack'}" for row in rows
    ]
    result("stack-import-machines", {"cell": cell, "machines": rows}, [*lines, _next(cell)])


def _ask(environment: str, cell: str, what: str, *, yes: bool) -> None:
    agree(
        f"This {what}: cell {cell}, environment {environment}.",
        expect=cell,
        spared=f"{cell} in {environment} is untouched",
        yes=yes,
    )


def _next(cell: str) -> str:
    return advice(("stack", "preview", cell), "shows what the next up would change")


def state_in(data: bytes, file: str) -> dict[str, Any]:
    """The exported state that is in a file.

    Raises:
        UsageError: The file holds something else.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{file} is no JSON: {error}", hint=Hint(("stack", "export", "CELL"), "> FILE makes one")
        ) from error
    if not isinstance(document, dict) or not isinstance(document.get("deployment"), dict):
        raise UsageError(f"{file} is no exported state", hint=Hint(("stack", "export", "CELL"), "> FILE makes one"))
    return document
