"""``hermesops instance settings``: what a user's agent is set to, and another choice."""

from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.console import Reason, result
from hermesops.cli.options.input_file import read
from hermesops.cli.views import shapes
from hermesops.errors import UsageError

if TYPE_CHECKING:
    from hermesops.instances.requests.settings_patch import SettingsPatch


def settings(
    user: Annotated[str, typer.Argument(help="User id, alias or instance id.")],
    source: Annotated[
        str, typer.Option("--from", metavar="FILE", help="Replace all of them by this YAML or JSON; - reads stdin.")
    ] = "",
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Change model, personality or disabled_tools (a,b)."),
    ] = None,
    back: Annotated[bool, typer.Option("--back", help="Return to the settings before the last change.")] = False,
    reason: Reason = "",
) -> None:
    """Show a user's settings, secrets masked; or change them, and wait until the agent is healthy with them.

    The fields are model, personality, messengers, mcp_servers, cron and disabled_tools. Cron jobs are given to the
    agent once: leaving one out later does not take it away.
    """
    ways = bool(source) + bool(assignments) + back
    if ways > 1:
        raise UsageError("--from, --set and --back exclude each other")
    # Read and judged before anything is asked or opened.
    request = _request(source, assignments or [])
    composed = context.compose()
    instance = composed.registry.instances.find(user)

    async def change() -> str:
        async with composed.session() as session:
            return await session.operations.run(await session.instance_requests.configure(user, request, reason=reason))

    outcome = context.run(change()) if ways else ""
    shown = shapes.instance_settings(composed.registry.instance_secrets.settings(instance.id))
    result(
        "instance-settings",
        {"user": user, "settings": shown, "outcome": outcome or None},
        [outcome] if outcome else shapes.settings_lines(shown),
    )


def _request(source: str, assignments: list[str]) -> "SettingsPatch | None":
    if not source and not assignments:
        return None
    from hermesops.instances.requests.settings_patch import replacing, setting

    if not source:
        return setting(assignments)
    return replacing(read(source), where="standard input" if source == "-" else source)
