"""``hermesops stack rollback-state|import``: a state mended by hand. Machines stay as they are."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from hermesops.cli import context
from hermesops.cli.console import Why, Yes, agree, result, table
from hermesops.cli.views import shapes
from hermesops.errors import UsageError
from hermesops.model.cell import parse_cell
from hermesops.model.ids import CellName

Cell = Annotated[str, typer.Argument(help="Name of the cell.")]

_SHOWN = 20


def rollback_state(
    cell: Cell,
    to: Annotated[str, typer.Option("--to", help="Which copy; the newest sound one that differs if left out.")] = "",
    list_: Annotated[bool, typer.Option("--list", help="Only show the copies, newest first.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many copies --list shows.")] = _SHOWN,
    reason: Why = "",
    yes: Yes = False,
) -> None:
    """Restore a copy of the cell's Pulumi state; the current state becomes a copy, machines stay as they are."""
    composed = context.compose()
    name = composed.registry.cells.get(parse_cell(cell)).name
    if list_:
        copies = context.run(composed.cell_states.versions(name, limit=limit))
        rows = [shapes.state_version(one) for one in copies]
        columns = ("version", "at", "what", "resources", "note")
        table("state-versions", "versions", columns, rows, f"{cell}: no copies of its state")
        return
    chosen = f"copy {to}" if to else "its newest sound copy that differs"
    _ask(composed.env.name, cell, f"puts {chosen} in the place of the state", yes=yes)
    put = context.run(composed.cell_states.restore(name, to, why=reason or "stack rollback-state"))
    shown = shapes.state_version(put)
    lines = [f"{cell}: the state of {shown['at']} is back ({put.resources} resources)", _next(cell)]
    result("stack-rollback-state", {"cell": cell, **shown}, lines)


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

    A machine that is taken in has to be the one that a row of the cell orders: which instance a machine belongs to is
    for `fleet adopt` to change. A state that is replaced becomes a copy, which `stack rollback-state` puts back.
    """
    name = parse_cell(cell)
    if (file is None) is (not machines):
        raise UsageError(
            "either a file that `stack export` printed, or --machine NAME=ID", hint="hermesops fleet drift"
        )
    if file is None:
        _take_in(name, machines or [], reason)
        return
    composed = context.compose()
    composed.registry.cells.get(name)
    document = _read(file)
    _ask(composed.env.name, cell, f"puts {file} in the place of the state", yes=yes)
    context.run(composed.cell_states.take(name, document, why=reason or "stack import"))
    resources = len(document["deployment"].get("resources") or ())
    result(
        "stack-import",
        {"cell": cell, "resources": resources},
        [f"{cell}: the state is what {file} says ({resources} resources)", _next(cell)],
    )


def _take_in(cell: CellName, machines: list[str], reason: str) -> None:
    from hermesops.cells.stack.state_repair import parse_imports

    composed = context.compose()
    wanted = parse_imports(machines, composed.env.name)

    async def work() -> tuple[str, ...]:
        async with composed.vendor() as client:
            return await composed.cell_imports(client).take(cell, wanted, why=reason or "stack import")

    new = context.run(work())
    rows = [{"name": one, "id": id_, "imported": one in new} for one, id_ in wanted.items()]
    lines = [
        f"{cell}: {row['name']} {'is in its stack now' if row['imported'] else 'was in its stack'}" for row in rows
    ]
    result("stack-import-machines", {"cell": cell, "machines": rows}, [*lines, _next(cell)])


def _ask(environment: str, cell: str, what: str, *, yes: bool) -> None:
    agree(
        f"This {what} of cell {cell} of environment {environment}.",
        expect=cell,
        spared=f"{cell} in {environment} is untouched",
        yes=yes,
    )


def _next(cell: str) -> str:
    return f"hermesops stack preview {cell} shows what the next up would change"


def _read(file: Path) -> dict[str, Any]:
    try:
        return state_in(file.read_bytes(), str(file))
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from error


def state_in(data: bytes, file: str) -> dict[str, Any]:
    """The exported state in a file's content.

    Raises:
        UsageError: It is none.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file} is no JSON: {error}", hint="hermesops stack export CELL > FILE makes one") from error
    if not isinstance(document, dict) or not isinstance(document.get("deployment"), dict):
        raise UsageError(f"{file} is no exported state", hint="hermesops stack export CELL > FILE makes one")
    return document
