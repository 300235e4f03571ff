"""What ``runbook run`` and ``drill`` share: where runbooks are, and how their commands are run."""

from pathlib import Path
from typing import TYPE_CHECKING

from hermesops.cli import context
from hermesops.cli.console import is_json, write

if TYPE_CHECKING:
    from hermesops.app import Container
    from hermesops.runbook.run import Ended


def folder() -> Path:
    """Where runbooks are."""
    from hermesops import assets

    return assets.folder("runbooks")


def execute(composed: "Container", words: tuple[str, ...], *, shown: bool = True) -> "Ended":
    """Run a command of hermesops in the chosen environment; its output is shown where people read and want it."""
    from hermesops.app.services import runbooks
    from hermesops.runbook.run import run_command

    def unseen(_: str) -> None:
        """Drop output where a program reads the result."""

    variables = runbooks.variables_of(composed.env)
    show = write if shown and not is_json() else unseen
    return context.run(run_command(words, environment=composed.env.name, variables=variables, show=show))
