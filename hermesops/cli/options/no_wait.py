"""``--no-wait``: what a command intends is written down, and workers do it."""

from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli.console import say

if TYPE_CHECKING:
    from hermesops.model.operation import Operation
    from hermesops.operations.runner import Operations

NoWait = Annotated[
    bool, typer.Option("--no-wait", help="Leave it to the workers; operation continue ID waits for its end.")
]


async def run_or_leave(operations: "Operations", operation: "Operation", *, no_wait: bool) -> str:
    """Bring an operation to its end here, or leave it to the workers; its outcome in a line."""
    if not no_wait:
        return await operations.run(operation)
    operations.leave(operation)
    say(f"hermesops operation continue {operation.id} waits for its end; hermesops worker is what brings it there")
    return f"left to the workers: operation {operation.id}"
