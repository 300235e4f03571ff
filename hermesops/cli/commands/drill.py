"""``hermesops drill``: what has to work one day, tried today."""

from typing import Annotated

import typer

from hermesops.cli import context
from hermesops.cli.command_group import Noun
from hermesops.cli.console import result
from hermesops.cli.options.no_wait import NoWait, run_or_leave
from hermesops.cli.views import backup

app = Noun(no_args_is_help=True)


@app.callback()
def group() -> None:
    """Drills: rehearsals of disaster recovery."""


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

    async def work() -> tuple[str, str]:
        from hermesops.app.services.restore_drills import Drills

        async with composed.session() as session:
            operation = await Drills(session).open(instance, why="by hand")
            outcome = await run_or_leave(session.operations, operation, no_wait=no_wait)
            return str(operation.intent["snapshot"]), outcome

    snapshot, outcome = context.run(work())
    whose = next(one for one in composed.registry.backups.list() if one.id == snapshot)
    title = composed.registry.instances.get(whose.instance_id).title
    shown = None if no_wait else backup.backup(whose, title)
    result("drill", {"user": title, "outcome": outcome, "proved": shown}, [outcome])
