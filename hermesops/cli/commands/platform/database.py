"""``hermesops platform restore``: the platform's database as it was at a moment."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.base import typed_values as values
from hermesops.cli import context
from hermesops.cli.console import Why, Yes, advice, agree, result
from hermesops.cli.views import audit
from hermesops.errors import Hint, UsageError
from hermesops.views import platform as shapes

if TYPE_CHECKING:
    from hermesops.app.platform import PlatformParts
    from hermesops.platform.restore import Restored


def restore(
    to: Annotated[
        str, typer.Option("--to", help="latest, or a moment: 2026-11-26T06:00:00Z, or 10m for ten minutes ago.")
    ],
    reason: Why,
    yes: Yes = False,
) -> None:
    """Restore the database of a local world's platform to a moment, from its backups in the object store.

    The database of before is kept on the host, in a folder that the output names. Nothing works with the registry
    meanwhile; then a new epoch begins, and machines refuse leases from before. Killed at any moment, the same command
    goes on; another moment gives up the unfinished one.
    """
    from hermesops.platform.restore import LATEST, target_of

    container = context.compose()
    if not container.env.is_local:
        raise UsageError(
            f"the database of environment {container.env.name} is not on a machine of a local world",
            hint=Hint("RDS restores it, or the role:", ("runbook", "show", "platform-database-restored")),
        )
    target = target_of(None if to == LATEST else values.since(to), datetime.now(UTC))
    agree(
        f"This restores the database of environment {container.env.name}'s platform to {target}: "
        "what was written later is in the database of before alone.",
        expect=container.env.name,
        spared="nothing was restored",
        yes=yes,
    )

    async def work(parts: "PlatformParts") -> "Restored":
        return await (await parts.database_restore(reason)).run(target)

    done = context.run_platform(container, work)
    lines = [
        f"restored to {done.target} in {done.seconds:.0f} s; the database of before is {done.set_aside} on the host",
        *([f"epoch {done.epoch} has begun: every lease from before has ended"] if done.epoch else []),
        *([done.audit.told] if done.audit else []),
        advice(("fleet", "drift"), "compares what was done later with what the registry knows"),
    ]
    result("platform-restored", shapes.restored(done), lines)
    if done.audit:
        audit.require_sound(done.audit)
