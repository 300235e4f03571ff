"""An operator's commands to an unfinished rollout: pause, resume, promote, approve, abort, retry."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.commands.rollout import follow
from hermesops.cli.console import Why, advice, result
from hermesops.cli.options.rollout import Detach, Id
from hermesops.cli.views.rollout import status

if TYPE_CHECKING:
    from hermesops.agents.rollout.operator_commands import Decide
    from hermesops.app.container import Container
    from hermesops.model.rollout import Rollout


def pause(rollout_id: Id = "", reason: Why = "") -> None:
    """Pause a rollout: no further instance starts; those in progress finish, and gates still count."""
    from hermesops.agents.rollout import commands
    from hermesops.agents.rollout.operator_commands import give_command

    composed = context.compose()
    row = composed.registry.rollouts.find(rollout_id)
    paused = give_command(composed.registry, row.id, commands.pause, why=reason or "paused")
    line = advice(f"rollout {row.id} is paused:", ("rollout", "resume", row.id), "goes on")
    result("rollout", {"rollout": status.rollout(paused)}, [line])


def resume(
    rollout_id: Id = "",
    despite_alerts: Annotated[
        str,
        typer.Option(
            "--despite-alerts",
            help="From now on ignore open pages about cells or the fleet, and that they are not known; says why.",
            metavar="REASON",
            show_default=False,
        ),
    ] = "",
    reason: Why = "",
    detach: Detach = False,
) -> int:
    """Continue a rollout that is paused, or whose runner died; follow it if another process runs it."""
    from hermesops.agents.rollout import commands
    from hermesops.model.rollout import RolloutState

    composed = context.compose()
    row = composed.registry.rollouts.find(rollout_id)
    if despite_alerts:
        decide = partial(commands.resume, despite_alerts=True)
        return _give(composed, row, decide, why=despite_alerts, detach=detach)
    if row.state is not RolloutState.PAUSED and row.state.has_runner:
        return follow.run(composed, row.id, wanted="done", detach=detach)
    return _give(composed, row, commands.resume, why=reason or "resumed", detach=detach)


def promote(
    rollout_id: Id = "",
    full: Annotated[bool, typer.Option("--full", help="All stages, not only the next.")] = False,
    reason: Why = "",
    detach: Detach = False,
) -> int:
    """Start the next stage without soak, approval or more data; a failing gate still halts the rollout.

    After a halt, failures so far no longer count: you have checked them and take responsibility.
    """
    from hermesops.agents.rollout import commands

    return _find_and_give(rollout_id, partial(commands.promote, full=full), why=reason or "promoted", detach=detach)


def approve(
    rollout_id: Id = "",
    stage: Annotated[int, typer.Option(min=1, help="The last stage that you approve.")] = 1,
    reason: Why = "",
) -> None:
    """Approve stages whose blast radius needs a second operator; signed with your key, never your own rollout."""
    from hermesops.agents.rollout.operator_commands import approve as signed

    composed = context.compose()
    row, approver = signed(composed.env, composed.registry, rollout_id, stage, why=reason or "approved")
    shape = {"rollout": status.rollout(row), "stage": stage, "approved_by": approver}
    result("rollout-approved", shape, [f"{approver} approved stages up to {stage} of rollout {row.id}"])


def abort(rollout_id: Id = "", reason: Why = "", detach: Detach = False) -> int:
    """Abort a rollout: no further instance starts; those in progress finish or roll back, others keep the release."""
    from hermesops.agents.rollout import commands

    return _find_and_give(rollout_id, commands.abort, why=reason or "aborted", wanted="aborted", detach=detach)


def retry(rollout_id: Id = "", reason: Why = "", detach: Detach = False) -> int:
    """Retry failed instances first, through the same gates."""
    from hermesops.agents.rollout import commands

    return _find_and_give(rollout_id, commands.retry, why=reason or "retried", detach=detach)


def roll_back(composed: "Container", row: "Rollout", *, lose: bool, even_revoked: bool, why: str, detach: bool) -> int:
    """Roll back all targets that run the release because of a rollout."""
    from hermesops.agents.rollout import commands

    return _give(
        composed,
        row,
        partial(commands.roll_back, lose=lose, even_revoked=even_revoked),
        why=why,
        wanted="rolled_back",
        detach=detach,
    )


def _find_and_give(rollout_id: str, decide: "Decide", *, why: str, wanted: str = "done", detach: bool) -> int:
    composed = context.compose()
    return _give(composed, composed.registry.rollouts.find(rollout_id), decide, why=why, wanted=wanted, detach=detach)


def _give(
    composed: "Container", row: "Rollout", decide: "Decide", *, why: str, wanted: str = "done", detach: bool
) -> int:
    from hermesops.agents.rollout.operator_commands import give_command

    give_command(composed.registry, row.id, decide, why=why)
    return follow.run(composed, row.id, wanted=wanted, detach=detach)
