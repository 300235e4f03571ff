"""``hermesops fleet owed``: who has not got what the others have."""

from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.commands.rollout import follow
from hermesops.cli.console import Why, table
from hermesops.cli.options.rollout import Detach
from hermesops.cli.views.rollout import status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermesops.app import App
    from hermesops.app.services.outdated import Owed


def owed(
    bring: Annotated[bool, typer.Option("--bring", help="Roll it out to them now, through the same gates.")] = False,
    reason: Why = "",
    detach: Detach = False,
) -> int:
    """List instances that a rollout could not reach, or that came after it, with the release that they shall get."""
    from hermesops.app.services import outdated

    composed = context.compose()
    found = outdated.owed(composed.registry)
    if bring and found:
        return _bring(composed, found, reason or "owed", detach=detach)
    rows = [status.owed(one) for one in found]
    table("fleet-owed", "owed", ("user", "release", "rollout", "why", "since"), rows, "nobody is owed a release")
    return 0


def _bring(composed: "App", found: "Sequence[Owed]", reason: str, *, detach: bool) -> int:
    """One rollout for each release or image; the worst of their exit codes."""
    from hermesops.app.services.outdated import usual_spec, wishes

    codes = []
    for wish in wishes(found, reason, usual_spec(composed.env.settings)):
        codes.append(follow.start(wish, queue=False, detach=detach))
        composed.tell(f"brought {wish.release} to those that it was owed to")
    return max(codes)
