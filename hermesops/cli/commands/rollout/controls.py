"""An operator's commands to an unfinished rollout: pause, resume, promote, approve, abort, retry."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.commands.rollout import follow
from hermesops.cli.console import Why, advice, result
from hermesops.cli.options.rollout import Detach, Id
from hermesops.cli.views.rollout import status
from hermesops.views.agents import rollouts as rollout_shapes

if TYPE_CHECKING:
    from hermesops.agents.rollout.operators.service import Decide

DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Print the state and the agents that the command would change; change nothing."),
]


def pause(rollout_id: Id = "", reason: Why = "", dry_run: DryRun = False) -> None:
    """Pause a rollout: no further instance starts; those in progress finish, and gates still count."""
    if dry_run:
        from hermesops.agents.rollout.operators import commands

        _preview(rollout_id, commands.pause)
        return
    paused = context.compose().rollout_commands.pause(rollout_id, why=reason)
    line = advice(f"rollout {paused.id} is paused;", ("rollout", "resume", paused.id), "continues it")
    result("rollout", {"rollout": rollout_shapes.rollout(paused)}, [line])


def resume(
    rollout_id: Id = "",
    despite_alerts: Annotated[
        str,
        typer.Option(
            "--despite-alerts",
            help="Ignore open page-severity alerts of cells and the fleet, and an unreachable Alertmanager.",
            metavar="REASON",
            show_default=False,
        ),
    ] = "",
    reason: Why = "",
    detach: Detach = False,
    dry_run: DryRun = False,
) -> int:
    """Continue a rollout that is paused, or whose runner died; follow it if another process runs it."""
    if dry_run:
        from hermesops.agents.rollout.operators import commands

        despite = partial(commands.resume, despite_alerts=True)
        return _preview(rollout_id, despite if despite_alerts else commands.resume)
    container = context.compose()
    row = container.rollout_commands.resume(rollout_id, why=reason, despite_alerts=despite_alerts)
    return follow.run(container, row.id, expected="done", detach=detach)


def promote(
    rollout_id: Id = "",
    full: Annotated[bool, typer.Option("--full", help="All stages, not only the next.")] = False,
    reason: Why = "",
    detach: Detach = False,
    dry_run: DryRun = False,
) -> int:
    """Start the next stage without soak, approval or more data; a failing gate still halts the rollout.

    After a halt, failures so far no longer count: you have checked them and take responsibility.
    """
    if dry_run:
        from hermesops.agents.rollout.operators import commands

        return _preview(rollout_id, partial(commands.promote, full=full))
    container = context.compose()
    row = container.rollout_commands.promote(rollout_id, full=full, why=reason)
    return follow.run(container, row.id, expected="done", detach=detach)


def approve(
    rollout_id: Id = "",
    stage: Annotated[int, typer.Option(min=1, help="Number of the last stage that you approve.")] = 1,
    reason: Why = "",
) -> None:
    """Approve stages whose blast radius needs a second operator; signed with your key, never your own rollout."""
    row, approver = context.compose().rollout_commands.approve(rollout_id, stage, why=reason)
    shape = rollout_shapes.approved(row, stage, approver)
    result("rollout-approved", shape, [f"{approver} approved stages up to {stage} of rollout {row.id}"])


def abort(rollout_id: Id = "", reason: Why = "", detach: Detach = False, dry_run: DryRun = False) -> int:
    """Abort a rollout: no further instance starts; those in progress finish or roll back, others keep the release."""
    if dry_run:
        from hermesops.agents.rollout.operators import commands

        return _preview(rollout_id, commands.abort)
    container = context.compose()
    row = container.rollout_commands.abort(rollout_id, why=reason)
    return follow.run(container, row.id, expected="aborted", detach=detach)


def retry(rollout_id: Id = "", reason: Why = "", detach: Detach = False, dry_run: DryRun = False) -> int:
    """Retry failed instances first, through the same gates."""
    if dry_run:
        from hermesops.agents.rollout.operators import commands

        return _preview(rollout_id, commands.retry)
    container = context.compose()
    row = container.rollout_commands.retry(rollout_id, why=reason)
    return follow.run(container, row.id, expected="done", detach=detach)


def _preview(rollout_id: str, decide: "Decide") -> int:
    """Print the effect of a command that is not given."""
    preview = context.compose().rollout_commands.preview(rollout_id, decide)
    result("rollout-command-preview", rollout_shapes.command_preview(preview), status.command_lines(preview))
    return 0
