"""``hermesops platform connect``: points an environment at its platform, and back."""

from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.base.narration import counted
from hermesops.cli import context
from hermesops.cli.console import Yes, advice, agree, result, say, table_lines
from hermesops.errors import Hint, UsageError
from hermesops.views import platform as shapes

if TYPE_CHECKING:
    from hermesops.app import Container
    from hermesops.app.platform import PlatformParts
    from hermesops.platform.connection.connect import Connected, Disconnected
    from hermesops.platform.connection.settings import SettingChange


def connect(
    undo: Annotated[
        bool, typer.Option("--undo", help="Take the settings from before, and the registry as it was then.")
    ] = False,
    broken_audit: Annotated[
        str, typer.Option("--broken-audit", help="Move it though its audit is broken, and why; it stays broken.")
    ] = "",
    yes: Yes = False,
) -> None:
    """Point this environment at its platform: settings, keys, and the registry, whose rows are copied.

    Shows first what changes in settings.toml, and asks. Nobody may write the registry meanwhile, and no operation may
    be open. Killed at any moment, the same command goes on. The local world's server starts anew; machines go on.
    """
    container = context.compose()
    if not container.env.is_local:
        raise UsageError(
            f"environment {container.env.name} is connected to its platform by its settings",
            hint=Hint(("platform", "show")),
        )
    if undo:
        _disconnect(container, despite=broken_audit, yes=yes)
        return
    setting_changes = context.run_platform(container, _planned)
    rows = shapes.changes(setting_changes)
    for line in table_lines(("setting", "before", "after"), rows, "every setting is as it should be"):
        say(line)
    if setting_changes:
        agree(
            f"This changes settings.toml of environment {container.env.name}, and moves its registry.",
            expect=container.env.name,
            spared="nothing was changed",
            yes=yes,
        )

    async def work(parts: "PlatformParts") -> "Connected":
        return await (await parts.connection()).connect(despite=broken_audit)

    done = context.run_platform(context.compose(), work)
    if setting_changes:
        _restart_world()
    lines = [
        (
            f"{counted(len(rows), 'setting')} changed; copied {counted(done.rows, 'row')} of the registry, "
            f"{counted(done.files, 'file')}"
        ),
        *([done.audit] if done.audit else []),
        advice(
            *(("stack", "up", "platform"), "tells its processes these settings, and serves users;"),
            *(("platform", "show"), "shows its services"),
        ),
    ]
    if not rows:
        lines[0] = "this environment uses its platform already; nothing was changed"
    if any(change.name == "router.url" for change in setting_changes):
        lines.append(advice(("token", "rotate", "--all"), "points existing agents to the platform's model router, too"))
    if not done.moves_backups:
        lines.append("backups stay in the present store: it holds backups already")
    result("platform-connect", shapes.connected(setting_changes, done), lines)


def _disconnect(container: "Container", *, despite: str, yes: bool) -> None:
    name = container.env.name
    agree(
        f"This takes the settings and the registry of environment {name} from before it was connected; "
        "what was written since stays in the platform's registry alone.",
        expect=name,
        spared="nothing was changed",
        yes=yes,
    )

    async def work(parts: "PlatformParts") -> "Disconnected":
        return await (await parts.connection()).undo(despite=despite)

    done = context.run_platform(container, work)
    _restart_world()
    lines = [
        f"the registry of this computer is in use again, from epoch {done.epoch}",
        done.audit,
        advice(("fleet", "drift"), "compares it"),
    ]
    result("platform-disconnect", shapes.disconnected(done), lines)


async def _planned(parts: "PlatformParts") -> "tuple[SettingChange, ...]":
    return (await parts.connection()).changes()


def _restart_world() -> None:
    """Have the local world's server read the settings as they are now."""
    from hermesops.cli.commands.local import serve_command
    from hermesops.platform.local.world import server_environment, world_of

    env = context.environment()
    if env.is_local:
        context.run(world_of(env).restart(serve_command(env.name), environment=server_environment(env), report=say))
