"""``hermesops instance settings|policy``: settings of a user's agent, and its place in rollouts."""

from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli.console import Reason, Why, result
from hermesops.cli.options.files import read
from hermesops.cli.options.instance import DryRun, User, Wait, find_instance, preview_operation, run_operation, why
from hermesops.cli.printing.fields import field_lines
from hermesops.cli.views.instance.settings import settings_lines
from hermesops.errors import Hint, UsageError
from hermesops.views.agents import instances as instance_shapes
from hermesops.views.agents import rollouts as rollout_shapes

if TYPE_CHECKING:
    from hermesops.agents.instances.requests.settings_patch import SettingsPatch
    from hermesops.app.connected import Connected
    from hermesops.model.operation import Operation


def settings(
    user: User,
    source: Annotated[
        str, typer.Option("--from", metavar="FILE", help="Replace all of them by this YAML or JSON; - reads stdin.")
    ] = "",
    assignments: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Change model, personality or disabled_tools (a,b)."),
    ] = None,
    back: Annotated[bool, typer.Option("--back", help="Return to the settings before the last change.")] = False,
    reason: Reason = "",
    dry_run: DryRun = False,
    wait: Wait = "",
) -> None:
    """Show a user's settings, secrets masked; or change them, and wait until the agent is healthy with them.

    The fields are model, personality, messengers, mcp_servers, cron and disabled_tools. Cron jobs are given to the
    agent once: leaving one out later does not take it away.
    """
    ways = bool(source) + bool(assignments) + back
    if ways > 1:
        raise UsageError("--from, --set and --back exclude each other")
    if dry_run and not ways:
        raise UsageError("--dry-run needs a change", hint=Hint(("instance", "settings", user, "--set", "NAME=VALUE")))
    request: SettingsPatch | None = None  # read and checked before anything is asked or opened
    if source or assignments:
        from hermesops.agents.instances.requests.settings_patch import replacing, setting

        where = "standard input" if source == "-" else source
        request = replacing(read(source), where=where) if source else setting(assignments or [])
    container, instance = find_instance(user)

    async def change(connected: "Connected") -> "Operation":
        return await connected.instance_requests.configure(user, request, reason=why(reason, dry_run=dry_run))

    if dry_run:
        preview_operation(container, change)
        return
    outcome = run_operation(container, change, no_wait=False, wait=wait)[1] if ways else ""
    shown = container.masked_settings.of(instance)
    route = instance_shapes.route(str(shown["model"]), container.model_providers.of(instance))
    lines = [outcome] if outcome else settings_lines(shown, route)
    result("instance-settings", instance_shapes.settings(user, shown, route, outcome), lines)


def policy(
    user: User,
    opt_in: Annotated[
        bool | None, typer.Option("--opt-in/--no-opt-in", help="Receive new releases first.", show_default=False)
    ] = None,
    protect: Annotated[
        bool | None, typer.Option("--protect/--no-protect", help="Receive them last.", show_default=False)
    ] = None,
    quiet_hours: Annotated[
        str, typer.Option("--quiet-hours", metavar="22-07", help="Hours in which the agent is left alone; or none.")
    ] = "",
    timezone: Annotated[
        str, typer.Option("--timezone", help="Of those hours, as Europe/Berlin; UTC without it.", show_default=False)
    ] = "",
    reason: Why = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the new policy; change nothing.")] = False,
) -> None:
    """Show or change when and how early a user's agent takes part in rollouts."""
    from hermesops.agents.instances.settings.policies import PolicyChange

    change = PolicyChange(opt_in, protect, quiet_hours, timezone)
    container, instance = find_instance(user)
    policies = container.instance_policies
    after = policies.preview(instance, change) if dry_run else policies.change(instance, change, why=reason)
    shown = rollout_shapes.policy(after)
    lines = [*field_lines(shown), *(["dry run: nothing was changed"] if dry_run else [])]
    result("instance-policy", instance_shapes.policy_change(instance.title, shown, dry_run=dry_run), lines)
