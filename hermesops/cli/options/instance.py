"""Options of commands about one instance, and how they run the operation that changes it, here or by the workers."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.base import typed_values as values
from hermesops.cli import context
from hermesops.cli.console import advice, is_json, result, say
from hermesops.cli.options.files import read_saved
from hermesops.cli.options.time_limit import limit
from hermesops.errors import AlreadySoError, HermesError, Hint, UsageError
from hermesops.views.operations import ended

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hermesops.agents.instances.preview.change_preview import ChangePreview
    from hermesops.app import Container
    from hermesops.app.connected import Connected
    from hermesops.model.fleet.instance import Instance
    from hermesops.model.operation import Operation
    from hermesops.store.operations.kinds.agents import ApprovedList
    from hermesops.store.operations.runner import Operations

    Begin = Callable[[Connected], Awaitable[Operation]]

User = Annotated[str, typer.Argument(help="User id or its first eight characters, alias, or instance id.")]
ListOption = Annotated[
    Path | None,
    typer.Option("--from", help="With --approved-by: the list that it is on.", show_default=False, dir_okay=False),
]
ApprovedBy = Annotated[
    Path | None,
    typer.Option("--approved-by", help="Another operator's approval of that list.", show_default=False, dir_okay=False),
]
NoWait = Annotated[
    bool, typer.Option("--no-wait", help="Leave it to the workers; operation continue ID waits for its end.")
]

Wait = Annotated[
    str,
    typer.Option(
        "--wait",
        help="How long to wait while another process does something else to the agent, as 60s.",
        show_default=False,
    ),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Print steps, downtime, cost and losses of the change; change nothing."),
]
_AGAIN = Hint("the same command again later, or with --wait 10m;", ("operation", "list"), "shows what is under way")


def find_instance(user: str) -> "tuple[Container, Instance]":
    """The objects of the selected environment, and a user's instance there."""
    container = context.compose()
    return container, container.instances.find(user)


def approved_list(listed: Path | None, approved_by: Path | None) -> "ApprovedList | None":
    """The list and the approval of it that an operator gives; ``None`` without both.

    Raises:
        UsageError: One without the other, or a file cannot be read.
    """
    if listed is None and approved_by is None:
        return None
    if listed is None or approved_by is None:
        raise UsageError("--from LIST and --approved-by APPROVAL go together")
    from hermesops.store.operations.kinds.agents import ApprovedList

    return ApprovedList(read_saved(listed), read_saved(approved_by))


def change_instance(
    kind: str,
    user: str,
    begin: "Begin",
    *,
    no_wait: bool,
    wait: str = "",
    approved: "ApprovedList | None" = None,
    dry_run: bool = False,
) -> None:
    """Run the operation that ``begin`` opens for a user's instance, and print its outcome as a result of this kind.

    Where ``begin`` finds nothing to do, the outcome says so and there is no operation. A dry run prints a preview
    instead.
    """
    container = context.compose()
    container.approved_list = approved
    container.instances.find(user)
    try:
        if dry_run:
            preview_operation(container, begin)
            return
        operation, outcome = run_operation(container, begin, no_wait=no_wait, wait=wait)
    except AlreadySoError as fulfilled:
        outcome = f"nothing to do: {fulfilled.message}"
        result(kind, ended(user, None, outcome), [outcome])
        return
    result(kind, ended(user, operation.id, outcome), [outcome])


def run_operation(
    container: "Container", begin: "Begin", *, no_wait: bool, wait: str | None = None
) -> "tuple[Operation, str]":
    """Connect, open an operation, and run it or leave it to the workers.

    Args:
        wait: How long to wait while another process works on the instance, as typed; empty for not at all, ``None``
            where the command has no such option.

    Returns:
        The operation, and its outcome in a line.
    """
    from hermesops.agents.instances.requests.opening import open_when_free
    from hermesops.model.operation import LeaseHeldError

    wait_s = values.seconds(wait, "--wait") if wait else 0.0

    async def work(connected: "Connected") -> "tuple[Operation, str]":
        try:
            operation = await open_when_free(lambda: begin(connected), wait_s=wait_s, report=say)
        except LeaseHeldError as error:
            raise error if wait is None else LeaseHeldError(error.message, hint=_AGAIN, holder=error.holder) from None
        return operation, await run_or_leave(connected.operations, operation, no_wait=no_wait)

    return context.run_connected(container, work)


def why(reason: str, *, dry_run: bool) -> str:
    """The reason of a request; a dry run needs none from the operator."""
    return reason or ("dry run" if dry_run else "")


def preview_operation(container: "Container", begin: "Begin") -> None:
    """Print the preview of the operation that ``begin`` would open; every check of it runs, nothing is written."""

    async def work(connected: "Connected") -> "ChangePreview":
        dry = connected.dry_run()
        return await dry.change_previews.of(await begin(dry))

    print_preview(context.run_connected(container, work))


def print_preview(preview: "ChangePreview") -> None:
    """Print the result of a dry run."""
    from hermesops.cli.views.instance import change_preview as view
    from hermesops.views.agents.change_previews import change_preview

    result("change-preview", change_preview(preview), [] if is_json() else view.lines(preview))


async def run_or_leave(operations: "Operations", operation: "Operation", *, no_wait: bool) -> str:
    """Run an operation to its end here, follow the process that has it, or leave it to the workers.

    Returns:
        Its outcome in a line.
    """
    if not no_wait:
        return await resume_or_leave(operations, operation)
    operations.leave(operation)
    say(advice(("operation", "continue", operation.id), "waits for its end;", ("worker",), "runs it"))
    return f"left to the workers: operation {operation.id}"


async def resume_or_leave(operations: "Operations", operation: "Operation", *, wait_s: float = math.inf) -> str:
    """Run an operation to its end, or follow the process that has it; after ``--timeout``, leave it.

    Args:
        wait_s: Seconds to wait for another process.

    Returns:
        Its outcome in a line.
    """
    with limit.leaving(lambda: _left(operations, operation)):
        return await operations.resume(operation, wait_s=wait_s)


def _left(operations: "Operations", operation: "Operation") -> HermesError:
    """Leave an operation to the workers, unless a process has it; returns the error of a command that stops waiting."""
    holder = operations.leave_unless_held(operation)
    goes_on = f"{holder} goes on with it" if holder else "it is left to the workers"
    follow = ("operation", "continue", operation.id)
    return limit.error(f"operation {operation.id} ({goes_on})", Hint(follow, "follows it"))
