"""``hermesops message``: users' messages in messengers and agents' answers, without their texts."""

from typing import Annotated

import typer

from hermesops.cli import context
from hermesops.cli.console import Why, require_reason, result, table
from hermesops.cli.groups.noun import Noun
from hermesops.cli.views import messages as view
from hermesops.views.users import messages as shapes

app = Noun(no_args_is_help=True)

MessageId = Annotated[str, typer.Argument(metavar="MESSAGE", help="in-NUMBER or out-NUMBER, as the list has it.")]


@app.command("list")
def list_(
    user: Annotated[str, typer.Option("--user", help="Only of this user, by id or alias.", show_default=False)] = "",
    messenger: Annotated[
        str, typer.Option("--messenger", help="Only of this one, as telegram.", show_default=False)
    ] = "",
    state: Annotated[
        str, typer.Option("--state", help="As queued, sent, uncertain or dead; all by default.", show_default=False)
    ] = "",
    limit: Annotated[int, typer.Option("--limit", help="Most messages.", min=1, max=10000)] = 50,
) -> None:
    """List messages of users and of agents, the newest first, without their texts."""
    from hermesops.users.messaging.directory import parse_messenger, parse_state

    container = context.compose()
    chosen = parse_messenger(messenger) if messenger else ""
    in_state = parse_state(state) if state else ""
    records = container.message_directory.list(user=user, messenger=chosen, state=in_state, limit=limit)
    now = container.now()
    table("message-list", "messages", view.COLUMNS, [shapes.message(record, now) for record in records], "no messages")


@app.command()
def show(message: MessageId) -> None:
    """Show one message: its state and times, the message that it answers, and those that answer it."""
    container = context.compose()
    shown, now = container.message_directory.get(message), container.now()
    result("message-show", shapes.history(shown, now), view.history_lines(shown, now))


@app.command()
def retry(message: MessageId, reason: Why = "") -> None:
    """Send an answer again that the messenger refused, or of which nobody knows whether it was delivered.

    It is sent at once, before later ones of its chat. The user may get an uncertain one twice.
    """
    require_reason(reason, "message", "retry", message)
    container = context.compose()
    record = container.message_directory.retry(message, reason=reason)
    line = f"{record.id} is {record.state}: it is sent at once"
    result("message-retry", shapes.message(record, container.now()), [line])
