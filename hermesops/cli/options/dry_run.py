"""The option ``--dry-run`` of commands about other things than one agent's change, and its result."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli.console import result

if TYPE_CHECKING:
    from hermesops.agents.cells.cost.bill import Cost

DRY_RUN = "dry run"
"""The reason that stands in the place of an operator's, in checks that want one."""

DryRun = Annotated[bool, typer.Option("--dry-run", help="Run every check and print the effects; change nothing.")]


def show(kind: str, shape: Mapping[str, object], lines: Sequence[str]) -> None:
    """Print the preview of a command that changes nothing.

    Args:
        kind: Name of the JSON shape; the shape is that of the console's page.
    """
    result(kind, shape, [*lines, "dry run: nothing was changed"])


def cost_lines(cost: "Cost | None") -> list[str]:
    """The monthly cost before and after a change; no line where it changes no bill."""
    return [f"cost: {cost.before} now; {cost.after} after"] if cost else []
