"""``hermesops operation``: list, show, continue and abandon operations."""

from collections.abc import Mapping
from typing import Annotated

import typer

from hermesops.base import typed_values as values
from hermesops.cli import context
from hermesops.cli.console import Yes, advice, agree, result, table
from hermesops.cli.groups.noun import Noun
from hermesops.cli.options.dry_run import DryRun
from hermesops.cli.options.dry_run import show as show_preview
from hermesops.cli.options.instance import resume_or_leave
from hermesops.cli.options.watch import Every, Watch
from hermesops.cli.printing.fields import field_lines, in_words
from hermesops.cli.printing.rows import for_people
from hermesops.errors import Hint
from hermesops.views import operations as shapes

app = Noun(no_args_is_help=True)

Id = Annotated[str, typer.Argument(help="Id of the operation, or its beginning.")]


@app.command("list")
def list_(
    everything: Annotated[bool, typer.Option("--all", help="Ended ones as well.")] = False,
    watch: Watch = False,
    every: Every = "5s",
) -> None:
    """List operations that have not ended."""
    directory = context.compose().operation_directory
    columns = ("id", "kind", "about", "status", "step", "updated_at")
    empty = "no operation is running"

    def rows() -> list[dict[str, object]]:
        return [{**shapes.operation(row), "about": shapes.whose(row)} for row in directory.list(ended=everything)]

    if watch:
        from hermesops.cli.printing.watch import watch_list

        watch_list("operations", columns, rows, empty, every_s=values.seconds(every, "--every"))
        return
    table("operation-list", "operations", columns, rows(), empty)


@app.command()
def show(operation_id: Id) -> None:
    """Show one operation: its steps with their times, which process has it, and its audit entries."""
    shown = shapes.history(context.compose().operation_directory.history(operation_id))
    result("operation-show", {"operation": shown}, lines(shown))


@app.command("continue")
def continue_(
    operation_id: Id,
    wait: Annotated[str, typer.Option(help="How long to wait while another process has it, as 60s.")] = "30m",
    dry_run: DryRun = False,
) -> None:
    """Continue an operation from where it stopped; follow it if another process has it."""
    wait_s = values.seconds(wait, "--wait")
    container = context.compose()
    if dry_run:
        history = container.operation_directory.preview_continuation(operation_id)
        show_preview("operation-preview", shapes.continuation_preview(history), lines(shapes.history(history)))
        return
    operation = container.operation_directory.get(operation_id)
    outcome = context.run_connected(
        container, lambda connected: resume_or_leave(connected.operations, operation, wait_s=wait_s)
    )
    result("operation", {"id": operation.id, "outcome": outcome}, [outcome])


@app.command()
def abandon(
    operation_id: Id,
    reason: Annotated[
        str, typer.Option("--reason", help="Why it is not to be continued; goes into the audit log.")
    ] = "",
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Abandon an operation that no process works on, and list everything left behind."""
    container = context.compose()
    if dry_run:
        preview = container.operation_directory.preview_abandon(operation_id)
        left_behind = [f"left behind: {preview.left.what}", f"next: {advice(preview.left.next)}"]
        show_preview("operation-preview", shapes.abandon_preview(preview), left_behind)
        return
    row = container.operation_directory.get(operation_id)
    question = f"Nobody will continue {row.kind} of {row.subject} in environment {container.env.name}."
    # Without a reason it is refused anyway: no question is needed.
    agree(question, expect=row.id[:8], spared=f"operation {row.id} is unchanged", yes=yes or not reason.strip())
    left = context.run(container.abandon(row, reason=reason))
    lines = [f"abandoned {row.kind} {row.id}", f"left behind: {left.what}", f"next: {advice(left.next)}"]
    result("operation-abandon", shapes.abandoned(row, left), lines)


def lines(shown: Mapping[str, object]) -> list[str]:
    """Render the shape of a history as lines for people."""
    plain = {name: value for name, value in shown.items() if name not in {"intent", "lease", "steps", "audit", "hint"}}
    output = field_lines(plain)
    intent, lease = shown["intent"], shown["lease"]
    if isinstance(intent, Mapping):
        output += [f"intent      {name}: {in_words(value)}" for name, value in intent.items()]
    output.append(
        f"at it now   {lease['holder']}, token {lease['token']}" if isinstance(lease, Mapping) else "at it now   nobody"
    )
    output += ["", "steps"] + ([_step(step) for step in _list(shown["steps"])] or ["  none"])
    output += ["", "audit"] + [
        f"  {for_people(str(entry['at']))}  {entry['who']}  {entry['action']}  {entry['why']}"
        for entry in _list(shown["audit"])
    ]
    hint = shown["hint"]
    return output + (["", f"next: {advice(hint)}"] if isinstance(hint, Hint) else [])


def _step(step: Mapping[str, object]) -> str:
    problem = f"\n{'':24}{step['problem']}" if step["problem"] else ""
    return f"  {for_people(str(step['at']))}  {step['step']}  ({step['holder'] or 'no lease'}){problem}"


def _list(value: object) -> list[Mapping[str, object]]:
    return value if isinstance(value, list) else []
