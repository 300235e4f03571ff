"""Shared by ``runbook run`` and ``drill``: the folder of runbooks, and execution of their commands."""

from pathlib import Path
from typing import TYPE_CHECKING

from hermesops.cli import context
from hermesops.cli.console import is_json, write

if TYPE_CHECKING:
    from hermesops.app import Container
    from hermesops.observability.runbook.command import Ended


def folder() -> Path:
    """The folder with the runbooks that hermesops ships."""
    from hermesops.base import assets

    return assets.folder("runbooks")


def show(text: str) -> None:
    """Show output of a step, where people read."""
    if not is_json():
        write(text)


def execute(container: "Container", words: tuple[str, ...], *, shown: bool = True) -> "Ended":
    """Run a command of hermesops in the chosen environment; one that changes something shows its output, if wanted."""
    from hermesops.observability.runbook import service as runbooks
    from hermesops.observability.runbook.command import run_command
    from hermesops.observability.runbook.reading import is_reading

    def unseen(_: str) -> None:
        """Leave it to the caller, who has all of it at its end."""

    variables = runbooks.variables_of(container.env)
    take = show if shown and not is_reading(words) else unseen
    return context.run(run_command(words, environment=container.env.name, variables=variables, show=take))
