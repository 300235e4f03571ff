"""``hermesops pool``: warm pools, machines prepared in advance."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.console import Why, Yes, advice, agree, result, table
from hermesops.cli.groups.noun import Noun
from hermesops.cli.options.dry_run import DryRun, cost_lines, show
from hermesops.cli.options.instance import NoWait, run_or_leave
from hermesops.errors import Hint, UsageError
from hermesops.views.agents import cells as cell_shapes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermesops.app import Container
    from hermesops.app.connected import Connected
    from hermesops.store.operations.outcomes import Outcome

app = Noun(no_args_is_help=True)

Cells = Annotated[list[str] | None, typer.Argument(help="Names of cells; none means all.", show_default=False)]


@app.command("list")
def list_(cells: Cells = None) -> None:
    """List the machines of warm pools from the registry, and how many the settings want."""
    container = context.compose()
    pool_size = container.env.settings.pool_size
    rows = [cell_shapes.unassigned(machine) for machine in container.pool_machines.list(cells or ())]
    sizes = {plan.value: size for plan, size in sorted(pool_size.items())}
    columns = ("machine_name", "cell", "plan", "server_type", "status", "ready_at")
    empty = "no machines; the setting pool_size says how many each cell keeps ready"
    if any(pool_size.values()):
        empty = advice("no machines;", ("job", "run", "pools"), "makes them")
    table("pool-list", "machines", columns, rows, empty, beside={"pool_size": sizes})


@app.command()
def drain(
    cells: Cells = None,
    everything: Annotated[bool, typer.Option("--all", help="Every cell.")] = False,
    yes: Yes = False,
    reason: Why = "",
    no_wait: NoWait = False,
    dry_run: DryRun = False,
) -> None:
    """Destroy the machines of warm pools; job pools makes new ones."""
    if bool(cells) == everything:
        raise UsageError("name cells, or --all", hint=Hint(("pool", "list")))
    container = context.compose()
    container.cells.named(cells or ())
    if dry_run:
        _preview_drain(container, cells or ())
        return
    named = ", ".join(cells) if cells else "all cells"
    environment = container.env.name
    agree(
        f"This destroys the machines of the warm pools of {named} in environment {environment}.",
        expect=cells[0] if cells and len(cells) == 1 else environment,
        spared=f"the pools of {named} in {environment} are untouched",
        yes=yes,
    )

    async def work(connected: "Connected") -> "list[Outcome]":
        end = partial(run_or_leave, connected.operations, no_wait=no_wait)
        return await connected.pools.drain_each(cells or (), end, reason=reason or "drained by hand")

    outcomes = context.run_connected(container, work)
    if done := [cell_shapes.drained(outcome) for outcome in outcomes if outcome.operation]:
        result("pool-drain", {"cells": done}, [str(row["outcome"]) for row in done])
    elif not outcomes:
        result("pool-drain", {"cells": []}, ["there are no cells"])
    from hermesops.store.operations.outcomes import failure_of

    if failure := failure_of(outcomes, "pool drain"):
        raise failure


def _preview_drain(container: "Container", cells: "Sequence[str]") -> None:
    preview = context.run(container.pool_previews.drain(cells))
    machines = [f"destroys {row.name}, {row.plan} of {row.cell}, {row.status}" for row in preview.machines]
    lines = [*(machines or ["the pools have no machine"]), *cost_lines(preview.cost)]
    show("pool-drain-preview", cell_shapes.drain_preview(preview), lines)
