"""``hermesops pool``: warm pools, machines prepared in advance."""

from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.command_group import Noun
from hermesops.cli.console import Why, Yes, advice, agree, result, table
from hermesops.cli.options.instance import NoWait, run_or_leave
from hermesops.cli.views import cells as cells_view
from hermesops.errors import HermesError, Hint, PartlyDoneError, UsageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hermesops.app.container_parts.runtime import Runtime
    from hermesops.model.ids import CellName
    from hermesops.model.operation import Operation

app = Noun(no_args_is_help=True)

Cells = Annotated[list[str] | None, typer.Argument(help="Names of cells; none means all.", show_default=False)]


@app.command("list")
def list_(cells: Cells = None) -> None:
    """List the machines of warm pools from the registry, and how many the settings want."""
    composed = context.compose()
    wanted = composed.env.settings.pool_size
    rows = [cells_view.unassigned(one) for one in composed.pool_machines.list(cells or ())]
    sizes = {plan.value: size for plan, size in sorted(wanted.items())}
    columns = ("machine_name", "cell", "plan", "server_type", "status", "ready_at")
    empty = "no machines; the setting pool_size says how many each cell keeps ready"
    if any(wanted.values()):
        empty = advice("no machines;", ("pool", "refill"), "makes them")
    table("pool-list", "machines", columns, rows, empty, beside={"pool_size": sizes})


@app.command()
def refill(cells: Cells = None, no_wait: NoWait = False) -> None:
    """Refill the warm pools of cells to the size and image of the settings, and remove machines beyond it."""

    async def opened(session: "Runtime", cell: "CellName") -> "Operation":
        return session.pools.open(cell)

    _fill("pool-refill", cells, opened, opening=True, no_wait=no_wait)


@app.command()
def drain(
    cells: Cells = None,
    everything: Annotated[bool, typer.Option("--all", help="Every cell.")] = False,
    yes: Yes = False,
    reason: Why = "",
    no_wait: NoWait = False,
) -> None:
    """Destroy the machines of warm pools; the next refill makes new ones."""
    if bool(cells) == everything:
        raise UsageError("name cells, or --all", hint=Hint(("pool", "list")))
    composed = context.compose()
    composed.cells.named(cells or ())
    named = ", ".join(cells) if cells else "all cells"
    environment = composed.env.name
    agree(
        f"This destroys the machines of the warm pools of {named} in environment {environment}.",
        expect=cells[0] if cells and len(cells) == 1 else environment,
        spared=f"the pools of {named} in {environment} are untouched",
        yes=yes,
    )

    async def drained(session: "Runtime", cell: "CellName") -> "Operation":
        return await session.pools.drain(cell, reason=reason or "drained by hand")

    _fill("pool-drain", cells, drained, opening=False, no_wait=no_wait)


def _fill(
    kind: str,
    cells: list[str] | None,
    begin: "Callable[[Runtime, CellName], Awaitable[Operation]]",
    *,
    opening: bool,
    no_wait: bool,
) -> None:
    composed = context.compose()
    failed: list[tuple[str, HermesError]] = []
    rows: list[dict[str, object]] = []

    async def work(session: "Runtime") -> None:
        for cell in session.pools.cells(cells or (), opening=opening):
            try:
                operation = await begin(session, cell.name)
                outcome = await run_or_leave(session.operations, operation, no_wait=no_wait)
            except HermesError as error:
                failed.append((cell.name, error))
                continue
            rows.append({"cell": cell.name, "operation_id": operation.id, "outcome": outcome})

    context.run_connected(composed, work)
    if rows or not failed:
        lines = [str(row["outcome"]) for row in rows] or ["no cells; the setting pool_size wants none"]
        result(kind, {"cells": rows}, lines)
    if len(failed) == 1 and not rows:
        raise failed[0][1]
    if failed:
        words = "; ".join(f"{cell}: {error.message}" for cell, error in failed)
        raise PartlyDoneError(f"{len(failed)} of {len(failed) + len(rows)} cells are not done: {words}")
