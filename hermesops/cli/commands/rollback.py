"""``hermesops rollback``: return one instance, or all of a rollout, to the release before."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.base import typed_values as values
from hermesops.base.narration import counted
from hermesops.cli import context
from hermesops.cli.commands.rollout import follow
from hermesops.cli.console import Why, Yes, agree, result, say, table
from hermesops.cli.options.instance import Wait
from hermesops.cli.options.rollout import Detach
from hermesops.cli.views.rollout import status
from hermesops.errors import Hint, UsageError
from hermesops.views.agents import rollouts as rollout_shapes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hermesops.agents.rollout.plan.losses import AgentLosses
    from hermesops.app import Container
    from hermesops.model.fleet.slot import RollbackResult
    from hermesops.model.rollout.records import Rollout

_COLUMNS = ("user", "release", "problem", "settings_lost", "rows_lost", "settings_migrated", "rows_migrated")


def rollback(
    user: Annotated[
        str, typer.Argument(help="User id or its first eight characters, alias, or instance id.", show_default=False)
    ] = "",
    rollout_id: Annotated[
        str, typer.Option("--rollout", help="All instances that this rollout deployed.", show_default=False)
    ] = "",
    to: Annotated[
        str, typer.Option("--to", help="To this release instead of the one before.", show_default=False)
    ] = "",
    direct: Annotated[
        bool, typer.Option("--direct", help="Without registry and lease: the vendor's key is enough.")
    ] = False,
    machine: Annotated[
        str, typer.Option("--machine", help="With --direct: the machine's name or id.", show_default=False)
    ] = "",
    lose: Annotated[
        bool,
        typer.Option(
            "--lose",
            help="Even if rows written since do not fit the older databases; they are listed and kept.",
        ),
    ] = False,
    even_revoked: Annotated[
        bool, typer.Option("--even-revoked", help="Also to a release that was revoked or is below the floor.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print the settings and rows that each agent would lose; change nothing."),
    ] = False,
    yes: Yes = False,
    reason: Why = "",
    detach: Detach = False,
    wait: Wait = "",
) -> int:
    """Roll one instance, or all of a rollout, back to the release before. Data written since then is kept.

    Settings that a user changed since stay in force where both releases have them. --dry-run, the question before a
    rollback of a rollout, and the result name the others.

    A user's machine rolls back by itself within seconds. With --to and no user, all that do not run that release are
    rolled back to it: at once, without stages, never more at a time than may be unavailable.
    """
    if wait and (direct or not user):
        raise UsageError("--wait goes with one USER, and without --direct", hint=Hint(("rollback", "USER")))
    if direct or machine:
        if dry_run:
            raise UsageError("--dry-run goes without --direct", hint=Hint(("rollback", "USER", "--dry-run")))
        if rollout_id or not (user or machine):
            raise UsageError("--direct rolls back one machine only", hint=Hint(("rollback", "USER", "--direct")))
        text = machine or user
        work = context.compose().rollbacks.roll_back_directly(text, to=to, loses=lose, even_revoked=even_revoked)
        name, done = context.run(work)
        return _print(text, done, machine=name)
    if bool(user) + bool(rollout_id) > 1 or not (user or rollout_id or to):
        raise UsageError(
            "missing USER: name one user, or use --rollout ID or --to RELEASE", hint=Hint(("rollback", "USER"))
        )
    container = context.compose()
    if dry_run:
        return _preview(container, user, rollout_id, to, lose=lose, even_revoked=even_revoked)
    if user:
        instance = container.instances.find(user)
        roll_back = partial(
            container.rollbacks.roll_back,
            instance,
            to=to,
            loses=lose,
            even_revoked=even_revoked,
            why=reason or "rolled back",
        )
        return _print(instance.title, context.run(_when_free(roll_back, wait)))
    if rollout_id:
        row = container.rollouts.find(rollout_id)
        _agree_to(container, row, yes=yes)
        container.rollout_commands.roll_back(row.id, lose=lose, even_revoked=even_revoked, why=reason)
        return follow.run(container, row.id, expected="rolled_back", detach=detach)
    return _everybody(container, to, why=reason or f"back to {to}", yes=yes, detach=detach)


def _preview(container: "Container", user: str, rollout_id: str, to: str, *, lose: bool, even_revoked: bool) -> int:
    """Print the losses of a rollback, and change nothing."""
    rollbacks = container.rollbacks
    if user:
        previews: tuple[AgentLosses, ...] = (context.run(rollbacks.preview(container.instances.find(user), to=to)),)
    elif rollout_id:
        row = container.rollout_commands.preview_rollback(rollout_id, lose=lose, even_revoked=even_revoked)
        previews = context.run(rollbacks.preview_rollout(row))
    else:
        request = container.rollout_requests.everybody_at_once(to, reason="dry run")
        previews = context.run(container.rollout_losses.preview(request))
    rows = [rollout_shapes.losses(preview) for preview in previews]
    empty = "no agent has a newer configuration" if not user and not rollout_id else "no agent would be rolled back"
    table("rollback_preview", "agents", _COLUMNS, rows, empty)
    return 0


def _agree_to(container: "Container", row: "Rollout", *, yes: bool) -> None:
    """Ask the operator, who sees the losses of each agent; with ``--yes`` no machine is asked for them."""
    changed = sum(target.progress.on_release for target in container.rollouts.targets(row.id))
    question = f"This rolls back {counted(changed, 'agent')} in environment {container.env.name} from {row.release}."
    if not yes:
        losses = status.losses(context.run(container.rollbacks.preview_rollout(row)))
        for line in losses:
            say(line)
        question += " The newer state and configuration stay on each machine." if losses else ""
    agree(question, expect=row.id, spared=f"rollout {row.id} is unchanged", yes=yes)


async def _when_free(roll_back: "Callable[[], Awaitable[RollbackResult]]", wait: str) -> "RollbackResult":
    from hermesops.agents.instances.requests.opening import open_when_free

    return await open_when_free(roll_back, wait_s=values.seconds(wait, "--wait") if wait else 0.0, report=say)


def _everybody(container: "Container", to: str, *, why: str, yes: bool, detach: bool) -> int:
    request = container.rollout_requests.everybody_at_once(to, reason=why)
    for line in [] if yes else follow.loss_lines(container, request):
        say(line)
    agree(
        f"This deploys {request.release} to every running agent in environment {container.env.name}, without stages.",
        expect=container.env.name,
        spared="nothing was started",
        yes=yes,
    )
    return follow.begin(container, request, queue=False, detach=detach)


def _print(user: str, done: "RollbackResult", *, machine: str = "") -> int:
    shown = rollout_shapes.rollback_result(user, done, machine=machine)
    result("rollback", {"rollback": shown}, [status.rollback_line(user, done)])
    return 0
