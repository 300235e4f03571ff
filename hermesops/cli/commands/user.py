"""``hermesops user``: users with their agents, subscriptions and requests, without anything that they said."""

from typing import Annotated

import typer

from hermesops.base.typed_values import one_of
from hermesops.cli import context
from hermesops.cli.console import result, table
from hermesops.cli.groups.noun import Noun
from hermesops.cli.views import users as view
from hermesops.views.users import users as shapes

app = Noun(no_args_is_help=True)
requests = Noun(help="What users ask for and workers carry out.", no_args_is_help=True)
app.add_typer(requests, name="request")


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
