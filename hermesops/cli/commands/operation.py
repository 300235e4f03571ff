"""``hermesops operation``: what is or was under way, its continuation, and its end by hand."""

from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.command_group import Noun
from hermesops.cli.console import Yes, agree, in_environment, result, table
from hermesops.cli.views import operation as operation_view
from hermesops.cli.views import shapes

if TYPE_CHECKING:
    from hermesops.model.operation import Lease, Operation

app = Noun(no_args_is_help=True)

Id = Annotated[str, typer.Argument(help="Id of the operation, or its beginning.")]


@app.command("list")
def list_(
    everything: Annotated[bool, typer.Option("--all", help="Ended ones as well.")] = False,
) -> None:
    """List operations that have not ended."""
    rows = context.compose().registry.operations.list(unfinished=not everything)
    table(
        "operation-list",
        "operations",
        ("id", "kind", "subject", "status", "step", "updated_at"),
        [shapes.operation(row) for row in rows],
        "nothing is under way",
    )


@app.command()
def show(operation_id: Id) -> None:
    """Show one operation: its steps with their times, which process has it, and its audit entries."""
    registry = context.compose().registry
    row = registry.operations.get(operation_id)
    lease = next((one for one in registry.leases.list() if one.subject == row.subject), None)
    audit = [entry for entry in registry.audit.list(subject=row.subject, limit=100) if entry.at >= row.created_at]
    shown = operation_view.detail(row, registry.operations.steps(row.id), lease, audit, _hint(row, lease))
    result("operation-show", {"operation": shown}, operation_view.lines(shown))


@app.command("continue")
def continue_(
    operation_id: Id,
    wait: Annotated[
        float, typer.Option("--timeout", min=0, help="Seconds to wait for a process that has it already.")
    ] = 1800,
) -> None:
    """Continue an operation from where it stopped; follow it if another process has it."""
    composed = context.compose()
    operation = composed.registry.operations.get(operation_id)

    async def work() -> str:
        async with composed.session() as session:
            return await session.operations.resume(operation, wait_s=wait)

    outcome = context.run(work())
    result("operation", {"id": operation.id, "outcome": outcome}, [outcome])


@app.command()
def abandon(
    operation_id: Id,
    reason: Annotated[
        str, typer.Option("--reason", help="Why nobody shall continue it; goes into the audit log.")
    ] = "",
    yes: Yes = False,
) -> None:
    """Abandon an operation that no process works on; says what is left behind."""
    from hermesops.operations import runner as abandoning

    composed = context.compose()
    row = composed.registry.operations.get(operation_id)

    question = f"Nobody will continue {row.kind} of {row.subject} in environment {composed.env.name}."
    # Without a reason it is refused anyway, and nobody need be asked.
    agree(question, expect=row.id[:8], spared=f"operation {row.id} is as it was", yes=yes or not reason.strip())
    left = context.run(abandoning.abandon(row, composed.registry, reason=reason))
    hint = in_environment(left.next)
    result(
        "operation-abandon",
        {"id": row.id, "left": left.what, "hint": hint},
        [f"abandoned {row.kind} {row.id}", f"left behind: {left.what}", f"next: {hint}"],
    )


def _hint(row: "Operation", lease: "Lease | None") -> str:
    from hermesops.operations.runner import abandon_note

    if row.status.has_ended:
        return "" if row.status == "done" else abandon_note(row).next
    if lease:
        return f"hermesops operation continue {row.id} waits for {lease.holder}"
    return f"hermesops operation continue {row.id}, or hermesops worker --once"
