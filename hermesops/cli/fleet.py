"""``hermesops fleet``: all instances at once."""

from hermesops.cli import context, render_fleet
from hermesops.cli.console import result
from hermesops.cli.noun import Noun

app = Noun(help="The whole fleet.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """The whole fleet."""


@app.command()
def status() -> None:
    """Show the fleet from the registry: a grid of instances, and how many are of which cell, plan and status."""
    cells = context.compose().registry.tally_cells()
    result("fleet-status", render_fleet.status(cells), render_fleet.grid(cells))
