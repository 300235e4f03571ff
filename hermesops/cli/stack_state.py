"""``hermesops stack rollback-state|import``: a state mended by hand. Machines stay as they are."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from hermesops.cli import context, render
from hermesops.cli.console import Why, Yes, agree, result, table
from hermesops.errors import UsageError
from hermesops.model.cell import parse_cell

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
    """Put a copy of the cell's state in its place; what is there now becomes a copy, machines stay as they are."""
    name = parse_cell(cell)
    composed = context.compose()
    if list_:
        copies = context.run(composed.cell_states.versions(name, limit=limit))
        rows = [render.state_version(one) for one in copies]
        columns = ("version", "at", "what", "resources", "note")
        table("state-versions", "versions", columns, rows, f"{cell}: no copies of its state")
        return
    chosen = f"copy {to}" if to else "its newest sound copy that differs"
    _ask(composed.env.name, cell, f"puts {chosen} in the place of the state", yes=yes)
    put = context.run(composed.cell_states.put_back(name, to, why=reason or "stack rollback-state"))
    shown = render.state_version(put)
    lines = [f"{cell}: the state of {shown['at']} is back ({put.resources} resources)", _next(cell)]
    result("stack-rollback-state", {"cell": cell, **shown}, lines)


def import_(
    cell: Cell,
    file: Annotated[Path, typer.Argument(help="What `stack export` printed.")],
    reason: Why = "",
    yes: Yes = False,
) -> None:
    """Replace the cell's state by an exported one; what is there now becomes a copy, machines stay as they are."""
    name = parse_cell(cell)
    document = _read(file)
    composed = context.compose()
    _ask(composed.env.name, cell, f"puts {file} in the place of the state", yes=yes)
    context.run(composed.cell_states.take(name, document, why=reason or "stack import"))
    resources = len(document["deployment"].get("resources") or ())
    result(
        "stack-import",
        {"cell": cell, "resources": resources},
        [f"{cell}: the state is what {file} says ({resources} resources)", _next(cell)],
    )


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
        document = json.loads(file.read_bytes())
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from error
    except ValueError as error:
        raise UsageError(f"{file} is no JSON: {error}", hint="hermesops stack export CELL > FILE makes one") from error
    if not isinstance(document, dict) or not isinstance(document.get("deployment"), dict):
        raise UsageError(f"{file} is no exported state", hint="hermesops stack export CELL > FILE makes one")
    return document
