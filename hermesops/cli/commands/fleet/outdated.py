"""``hermesops fleet outdated``: who has not got what the others have."""

from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.commands.rollout import follow
from hermesops.cli.console import Why, table
from hermesops.cli.options.rollout import Detach
from hermesops.cli.views.rollout import status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermesops.app import Container
    from hermesops.rollout.plan.backlog import OutdatedInstance


def outdated(
    deploy: Annotated[bool, typer.Option("--deploy", help="Roll it out to them now, through the same gates.")] = False,
    reason: Why = "",
    detach: Detach = False,
) -> int:
    """List instances that a rollout could not reach, or that came after it, with the release that they shall get."""
    from hermesops.app.services import rollout_requests

    composed = context.compose()
    found = rollout_requests.outdated(composed.registry)
    if deploy and found:
        return _deploy(composed, found, reason or "outdated", detach=detach)
    rows = [status.outdated(one) for one in found]
    table("fleet-outdated", "outdated", ("user", "release", "rollout", "why", "since"), rows, "no instance is outdated")
    return 0


def _deploy(composed: "Container", found: "Sequence[OutdatedInstance]", reason: str, *, detach: bool) -> int:
    """One rollout for each release or image; the worst of their exit codes."""
    from hermesops.app.services.rollout_requests import usual_spec
    from hermesops.rollout.plan.backlog import requests_for

    codes = []
    for request in requests_for(found, reason, usual_spec(composed.env.settings)):
        codes.append(follow.start(request, queue=False, detach=detach))
        composed.tell(f"deployed {request.release} to the outdated instances")
    return max(codes)
