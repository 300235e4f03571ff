"""``hermesops freeze``: spans of time in which nothing is rolled out."""

from typing import Annotated

import typer

from hermesops.cli import context
from hermesops.cli.command_group import Noun
from hermesops.cli.console import advice, result, table
from hermesops.cli.views.rollout import status

app = Noun(no_args_is_help=True)

Reason = Annotated[str, typer.Option("--reason", help="Why; those who have to wait read it.")]


@app.command("list")
def list_(
    past: Annotated[bool, typer.Option("--all", help="Those of the past as well.")] = False,
) -> None:
    """List freezes: those that hold now, and those to come."""
    composed = context.compose()
    now = composed.now()
    rows = [status.freeze(one, now) for one in composed.freezes.list(past=past)]
    table("freeze-list", "freezes", ("id", "state", "begins_at", "ends_at", "reason", "who"), rows, "nothing is frozen")


@app.command("set")
def set_(
    reason: Reason = "",
    begin: Annotated[
        str, typer.Option("--from", help="A time in ISO 8601 (UTC by default), or in 12h; by default now.")
    ] = "",
    until: Annotated[
        str,
        typer.Option("--until", help="A time in ISO 8601 (UTC by default), or in 12h; by default until it is lifted."),
    ] = "",
) -> None:
    """Freeze rollouts for a while; a running rollout stops before its next batch."""
    from hermesops.cli.options.values import until as timestamp_of

    composed = context.compose()
    now = composed.now()
    begins_at = timestamp_of(begin, now=now) if begin else None
    ends_at = timestamp_of(until, now=now) if until else None
    made = composed.freezes.set(begins_at=begins_at, ends_at=ends_at, reason=reason)
    ends = f"until {made.ends_at:%Y-%m-%d %H:%M} UTC" if made.ends_at else "until it is lifted"
    line = advice(f"{composed.env.name} is frozen {ends}:", ("freeze", "lift", made.id, "--reason", "WHY"), "ends it")
    result("freeze", {"freeze": status.freeze(made, composed.now())}, [line])


@app.command()
def lift(
    freeze_id: Annotated[
        str,
        typer.Argument(help="Id of the freeze, or its beginning; not needed where there is one.", show_default=False),
    ] = "",
    reason: Reason = "",
) -> None:
    """End a freeze now."""
    composed = context.compose()
    lifted = composed.freezes.lift(freeze_id, reason=reason)
    result("freeze", {"freeze": status.freeze(lifted, composed.now())}, [f"freeze {lifted.id} is lifted"])
