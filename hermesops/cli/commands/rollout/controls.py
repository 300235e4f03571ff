"""What an operator says to a rollout under way: pause, resume, promote, approve, abort, retry."""

from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.commands.rollout import follow
from hermesops.cli.console import Why, result
from hermesops.cli.options.rollout import Detach, Id
from hermesops.cli.views.rollout import status

if TYPE_CHECKING:
    from hermesops.app.container import Container
    from hermesops.app.services.rollout_commands import Word
    from hermesops.model.rollout import Rollout, RolloutId


def pause(rollout_id: Id = "", reason: Why = "") -> None:
    """Pause a rollout: no further instance starts; those in progress finish, and gates still count."""
    from hermesops.app.services.rollout_commands import steer
    from hermesops.rollout import commands

    composed = context.compose()
    row = composed.registry.rollouts.find(rollout_id)
    paused = steer(composed, row.id, lambda seen, said: commands.pause(seen.rollout, said), why=reason or "paused")
    line = f"rollout {row.id} is paused: hermesops rollout resume {row.id} goes on"
    result("rollout", {"rollout": status.rollout(paused)}, [line])


def resume(rollout_id: Id = "", reason: Why = "", detach: Detach = False) -> int:
    """Continue a rollout that is paused, or whose runner died; follow it if another process runs it."""
    from hermesops.model.rollout import RolloutState
    from hermesops.rollout import commands

    composed = context.compose()
    row = composed.registry.rollouts.find(rollout_id)
    if row.state is not RolloutState.PAUSED and row.state.has_runner:
        return follow.go_on(composed, row.id, wanted="done", detach=detach)
    return _say(
        composed,
        row.id,
        lambda seen, said: commands.resume(seen.rollout, said),
        why=reason or "resumed",
        wanted="done",
        detach=detach,
    )


def promote(
    rollout_id: Id = "",
    full: Annotated[bool, typer.Option("--full", help="All stages, not only the next.")] = False,
    reason: Why = "",
    detach: Detach = False,
) -> int:
    """Start the next stage without soak, approval or more data; a failing gate still halts the rollout.

    After a halt, failures so far no longer count: you have checked them and take responsibility.
    """
    from hermesops.rollout import commands

    composed = context.compose()
    row = composed.registry.rollouts.find(rollout_id)
    return _say(
        composed,
        row.id,
        lambda seen, said: commands.promote(seen.rollout, seen.targets, said, full=full),
        why=reason or "promoted",
        wanted="done",
        detach=detach,
    )


def approve(
    rollout_id: Id = "",
    stage: Annotated[int, typer.Option(min=1, help="The last stage that you approve.")] = 1,
    reason: Why = "",
) -> None:
    """Approve stages whose blast radius needs a second operator; signed with your key, never your own rollout."""
    from hermesops.app.services.rollout_approvals import approve as signed

    composed = context.compose()
    row, approver = signed(composed, rollout_id, stage, why=reason or "approved")
    shape = {"rollout": status.rollout(row), "stage": stage, "approved_by": approver}
    result("rollout-approved", shape, [f"{approver} approved stages up to {stage} of rollout {row.id}"])


def abort(rollout_id: Id = "", reason: Why = "", detach: Detach = False) -> int:
    """Abort a rollout: no further instance starts; those in progress finish or roll back, others keep the release."""
    from hermesops.rollout import commands

    composed = context.compose()
    row = composed.registry.rollouts.find(rollout_id)
    return _say(
        composed,
        row.id,
        lambda seen, said: commands.abort(seen.rollout, said),
        why=reason or "aborted",
        wanted="aborted",
        detach=detach,
    )


def retry(rollout_id: Id = "", reason: Why = "", detach: Detach = False) -> int:
    """Retry failed instances first, through the same gates."""
    from hermesops.rollout import commands

    composed = context.compose()
    row = composed.registry.rollouts.find(rollout_id)
    return _say(
        composed,
        row.id,
        lambda seen, said: commands.retry(seen.rollout, seen.targets, said),
        why=reason or "retried",
        wanted="done",
        detach=detach,
    )


def roll_back(composed: "Container", row: "Rollout", *, lose: bool, even_revoked: bool, why: str, detach: bool) -> int:
    """Put everybody back whom a rollout brought to its release."""
    from hermesops.rollout import commands

    return _say(
        composed,
        row.id,
        lambda seen, said: commands.roll_back(seen.rollout, seen.targets, said, lose=lose, even_revoked=even_revoked),
        why=why,
        wanted="rolled_back",
        detach=detach,
    )


def _say(composed: "Container", rollout_id: "RolloutId", word: "Word", *, why: str, wanted: str, detach: bool) -> int:
    from hermesops.app.services.rollout_commands import steer

    steer(composed, rollout_id, word, why=why)
    return follow.go_on(composed, rollout_id, wanted=wanted, detach=detach)
