"""``hermesops drill``: rehearsals of disaster recovery."""

from typing import Annotated

import typer

from hermesops.cli import context
from hermesops.cli.command_group import Noun
from hermesops.cli.console import result
from hermesops.cli.options.instance import NoWait, run_operation
from hermesops.cli.views import backup

app = Noun(no_args_is_help=True)


@app.command()
def restore(
    user: Annotated[
        str, typer.Argument(help="Whose newest backup; without it, the agent whose last proof is oldest.")
    ] = "",
    no_wait: NoWait = False,
) -> None:
    """Restore a backup onto a machine out of the warm pool, compare, and destroy the machine; its agent goes on.

    The gateway there never starts, and nothing of the user is on it but the state. Workers do it weekly (drill_days).
    """
    composed = context.compose()
    instance = composed.registry.instances.find(user) if user else None
    operation, outcome = run_operation(
        composed, lambda session: session.drills.open(instance, why="by hand"), no_wait=no_wait
    )
    whose = next(one for one in composed.registry.backups.list() if one.id == operation.intent["snapshot"])
    title = composed.registry.instances.get(whose.instance_id).title
    shown = None if no_wait else backup.backup(whose, title)
    result("drill", {"user": title, "outcome": outcome, "proved": shown}, [outcome])
