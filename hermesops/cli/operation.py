"""``hermesops operation``: what is or was under way, and its continuation."""

from typing import Annotated

import typer

from hermesops.cli import context, render
from hermesops.cli.console import result, table
from hermesops.cli.noun import Noun

app = Noun(help="Long work: rows with intent, lease and outcome.", no_args_is_help=True)


@app.command("list")
def list_(
    everything: Annotated[bool, typer.Option("--all", help="Ended ones as well.")] = False,
) -> None:
    """List operations that have not ended."""
    rows = context.compose().registry.list_operations(unfinished=not everything)
    table(
        "operation-list",
        "operations",
        ("id", "kind", "subject", "status", "step", "updated_at"),
        [render.operation(row) for row in rows],
        "nothing is under way",
    )


@app.command("continue")
def continue_(
    operation_id: Annotated[str, typer.Argument(help="Id of the operation.")],
) -> None:
    """Bring an operation to its end, wherever it stopped."""
    composed = context.compose()
    operation = composed.registry.get_operation(operation_id)

    async def work() -> str:
        async with composed.session() as session:
            return await session.operations.resume(operation)

    outcome = context.run(work())
    result("operation", {"id": operation_id, "outcome": outcome}, [outcome])
