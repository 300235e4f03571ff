"""``hermesops messenger``: the bots by which users write to their agents."""

from typing import Annotated

import typer

from hermesops.cli import context
from hermesops.cli.console import Why, advice, require_reason, result, table
from hermesops.cli.groups.noun import Noun
from hermesops.cli.views import environment
from hermesops.views.users import messages as shapes

app = Noun(no_args_is_help=True)

_COLUMNS = ("messenger", "bot", "linked", "blocked", "waiting", "undelivered", "oldest")


@app.command("list")
def list_() -> None:
    """List messengers with their bots, linked accounts, messages that wait and answers that were not delivered."""
    from hermesops.model.messaging.record import MessengerCount

    container = context.compose()
    bots = {bot.messenger.value: bot.bot for bot in container.make_bots().registrations}
    counts, now = container.message_directory.counts(), container.now()
    rows = [
        shapes.messenger(name, bots.get(name, ""), counts.get(name, MessengerCount()), now)
        for name in sorted({*bots, *counts})
    ]
    none = advice("no messenger is offered:", ("settings", "set", "messengers.telegram_bot", "NAME"))
    table("messenger-list", "messengers", _COLUMNS, rows, none)


@app.command(lists=True, waits=True)
def check(
    messenger: Annotated[str, typer.Argument(help="Only this one, as telegram.", show_default=False)] = "",
) -> int:
    """Check each bot: that its messenger takes the token and sends what users write to the users' API."""
    bots = context.compose().make_bots()
    none = advice("no messenger is offered:", ("settings", "set", "messengers.telegram_bot", "NAME"))
    return environment.report_checks("messenger-check", context.run(bots.check(messenger)), empty=none)


@app.command(waits=True)
def register(messenger: Annotated[str, typer.Argument(help="As telegram.")], reason: Why = "") -> None:
    """Tell a messenger where to send what users write, and the secret that proves it: as after a change of either."""
    require_reason(reason, "messenger", "register", messenger)
    url = context.run(context.compose().make_bots().register(messenger, reason=reason))
    result("messenger-register", {"messenger": messenger, "url": url}, [f"{messenger} sends to {url}"])
