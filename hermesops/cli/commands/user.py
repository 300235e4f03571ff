"""``hermesops user``: users with their agents, subscriptions and requests, without anything that they said."""

from typing import Annotated

import typer

from hermesops.base.typed_values import one_of
from hermesops.cli import context
from hermesops.cli.console import Why, require_reason, result, table
from hermesops.cli.groups.noun import Noun
from hermesops.cli.options import dry_run as dry_runs
from hermesops.cli.options.dry_run import DryRun
from hermesops.cli.views import users as view
from hermesops.views.users import callers as caller_shapes
from hermesops.views.users import users as shapes

app = Noun(no_args_is_help=True)
requests = Noun(help="Requests of users, which workers carry out.", no_args_is_help=True)
callers = Noun(help="Callers: agents of other people that may call a user's agent.", no_args_is_help=True)
app.add_typer(requests, name="request")
app.add_typer(callers, name="caller")


@app.command()
def show(user: Annotated[str, typer.Argument(help="User id or alias.")]) -> None:
    """Show a user: agent, subscriptions, metered usage of 31 days, and the last requests without their content."""
    overview = context.compose().user_directory.get(user)
    result("user-show", shapes.overview(overview), view.overview_lines(overview))


@requests.command("list")
def list_(
    user: Annotated[str, typer.Option("--user", help="Only of this user, by id or alias.", show_default=False)] = "",
    state: Annotated[
        str, typer.Option("--state", help="queued, waiting, done or refused; all by default.", show_default=False)
    ] = "",
    limit: Annotated[int, typer.Option("--limit", help="Most requests.", min=1, max=10000)] = 50,
) -> None:
    """List requests of users, the newest first, without their content."""
    from hermesops.model.billing.user_request import RequestState

    chosen = one_of(RequestState, state, "--state") if state else None
    rows = [
        shapes.request(request)
        for request in context.compose().request_directory.list(user=user, state=chosen, limit=limit)
    ]
    columns = ("user_id", *view.REQUEST_COLUMNS)
    table("user-request-list", "requests", columns, rows, "no requests")


@callers.command("list")
def list_callers(
    user: Annotated[str, typer.Option("--user", help="Only of this user, by id or alias.", show_default=False)] = "",
    undelivered: Annotated[
        bool, typer.Option("--undelivered", help="Only callers with undelivered notifications.")
    ] = False,
    limit: Annotated[int, typer.Option("--limit", help="Most callers.", min=1, max=10000)] = 50,
) -> None:
    """List callers of users' agents, the newest first: state and counts, without names and hosts."""
    records = context.compose().calling_agents.list(user=user, undelivered=undelivered, limit=limit)
    rows = [caller_shapes.caller(record) for record in records]
    none = "no callers with undelivered notifications" if undelivered else "no callers"
    table("user-caller-list", "callers", view.CALLER_COLUMNS, rows, none)


@callers.command("revoke")
def revoke_caller(
    caller: Annotated[str, typer.Argument(metavar="CALLER", help="Id of the caller, from user caller list.")],
    reason: Why = "",
    dry_run: DryRun = False,
) -> None:
    """Revoke the key of a caller: its next request is refused. Tasks that the caller began continue."""
    if dry_run:
        record = context.compose().calling_agents.preview_revocation(caller)
        lines = [f"ends the key of caller {record.id}", f"open tasks, which go on: {record.open_tasks}"]
        dry_runs.show("user-caller-revoke-preview", caller_shapes.revocation_preview(record), lines)
        return
    require_reason(reason, "user", "caller", "revoke", caller)
    record = context.compose().calling_agents.revoke(caller, reason=reason)
    result("user-caller-revoke", caller_shapes.caller(record), [f"the key of caller {record.id} is revoked"])
