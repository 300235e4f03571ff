"""Prints a rollout that is not started: its stages, first agents, gates, worst case, and the settings that are lost."""

from typing import TYPE_CHECKING

from hermesops.cli import context
from hermesops.cli.console import result
from hermesops.cli.views.rollout import preview as view
from hermesops.cli.views.rollout import status
from hermesops.views.agents import rollout_previews as shapes

if TYPE_CHECKING:
    from hermesops.agents.rollout.plan.requests import RolloutRequest


def show(request: "RolloutRequest") -> None:
    """Print the preview of a start; machines are asked for the settings that they would lose."""
    container = context.compose()
    ahead = context.run(container.rollout_requests.preview(request))
    losses = context.run(container.rollout_losses.preview(request))
    lines = view.preview_lines(ahead.ahead, ahead.closed, ahead.held)
    result("rollout-preview", {"preview": shapes.start(ahead, losses)}, [*lines, *status.losses(losses)])
