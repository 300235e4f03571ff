"""Runs or watches a rollout until it ends or halts, and prints its end."""

import asyncio
from typing import TYPE_CHECKING

from hermesops.cli import context
from hermesops.cli.console import advice, complain, result, say
from hermesops.cli.options.time_limit import limit
from hermesops.errors import HaltedError, Hint, PartlyDoneError
from hermesops.views.agents import rollouts as rollout_shapes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hermesops.agents.rollout.plan.requests import RolloutRequest
    from hermesops.agents.rollout.reports.progress import RolloutProgress
    from hermesops.app.connected import Connected
    from hermesops.app.container import Container
    from hermesops.cli.views.rollout.live import View
    from hermesops.errors import HermesError
    from hermesops.model.rollout.records import Rollout, RolloutId


def start(request: "RolloutRequest", *, queue: bool, detach: bool) -> int:
    """Begin a rollout, or continue it, and run it; one to an older release first names the losses of each agent."""
    container = context.compose()
    for line in loss_lines(container, request):
        say(line)
    return begin(container, request, queue=queue, detach=detach)


def loss_lines(container: "Container", request: "RolloutRequest") -> list[str]:
    """The losses of each agent for which the release of a request is older; asks their machines."""
    from hermesops.cli.views.rollout.status import losses

    return losses(context.run(container.rollout_losses.preview(request)))


def begin(container: "Container", request: "RolloutRequest", *, queue: bool, detach: bool) -> int:
    """Begin a rollout, or continue it, and run it; asks no machine for losses."""

    async def begun(connected: "Connected") -> "Rollout":
        if queue:
            await connected.rollouts.await_others(request)
        return await connected.rollouts.start(request)

    return _execute(container, begun, expected="done", detach=detach)


def run(container: "Container", rollout_id: "RolloutId", *, expected: str, detach: bool) -> int:
    """Run a rollout until it ends or halts, or leave it to the workers; ``expected`` is the state it should end in."""

    async def find(connected: "Connected") -> "Rollout":
        return connected.container.rollouts.get(rollout_id)

    return _execute(container, find, expected=expected, detach=detach)


def watch(container: "Container", rollout_id: "RolloutId") -> int:
    """Show a rollout that another process runs until it ends or halts."""
    from hermesops.cli.views.rollout.live import view

    with view(container.now, container.rollouts.durations) as screen:
        rollout = context.run(container.rollout_commands.watch(rollout_id, screen.show))
    return _print_end(container, rollout, expected=rollout.state.value, detach=False) or exit_code_of(rollout)


def exit_code_of(rollout: "Rollout") -> int:
    """The exit code of a rollout that no process runs any more."""
    return 0 if rollout.state.value == "done" else _failure(rollout).exit_code


def problem_of(rollout: "Rollout", rollout_progress: "RolloutProgress", *, expected: str) -> "HermesError | None":
    """Why a rollout that no process runs is not in the state that was expected; ``None`` when it is."""
    if rollout.state.value != expected:
        return _failure(rollout)
    if expected != "done" or rollout_progress.reached == rollout_progress.targets:
        return None
    return PartlyDoneError(
        f"rollout {rollout.id} is done, but not all instances have the release: {rollout.reason}",
        hint=Hint(
            ("rollout", "status", rollout.id),
            "names the others;",
            (*_repeated(rollout), "--where", "user=USER"),
            "tries one again",
        ),
    )


def _repeated(rollout: "Rollout") -> tuple[str, ...]:
    """The command that begins such a rollout."""
    match rollout.action.value:
        case "tokens":
            return ("token", "rotate")
        case "machine":
            return ("rollout", "start", rollout.release, "--action", "machine")
        case _:
            return ("rollout", "start", rollout.release)


def _execute(
    container: "Container", begin: "Callable[[Connected], Awaitable[Rollout]]", *, expected: str, detach: bool
) -> int:
    from hermesops.cli.views.rollout.live import view

    with view(container.now, container.rollouts.durations) as screen:
        container.report = screen.report

        async def work(connected: "Connected") -> "Rollout":
            return await _run_or_leave(connected, await begin(connected), screen, detach=detach)

        rollout = context.run_connected(container, work)
    return _print_end(container, rollout, expected=expected, detach=detach)


async def _run_or_leave(connected: "Connected", rollout: "Rollout", screen: "View", *, detach: bool) -> "Rollout":
    if detach:
        connected.rollouts.leave(rollout)
        return rollout
    try:
        return await connected.container.rollout_commands.follow(connected.operations, rollout.id, screen.show)
    except asyncio.CancelledError:
        if limit.is_over():
            limit.left = _left(connected, rollout)
            raise
        now = connected.container.rollouts.get(rollout.id)
        left = "rolls back by itself" if now.action == "slot" else "stays between two machines; both are kept"
        words = f"rollout {now.id} is {now.state.replace('_', ' ')} and no process runs it now; an instance that is "
        on, end = ("rollout", "resume", now.id), ("rollout", "abort", now.id)
        say(advice(f"{words}not confirmed {left}.", on, "continues it,", end, "ends it"))
        raise


def _left(connected: "Connected", rollout: "Rollout") -> "HermesError":
    """Leave a rollout to the workers, unless a process runs it; returns the error of a command that stops waiting."""
    holder = connected.rollouts.leave_unless_held(connected.container.rollouts.get(rollout.id))
    goes_on = f"{holder} goes on with it" if holder else "it is left to the workers"
    follow = ("rollout", "status", rollout.id, "--follow")
    return limit.error(f"rollout {rollout.id} ({goes_on})", Hint(follow, "follows it"))


def _print_end(container: "Container", rollout: "Rollout", *, expected: str, detach: bool) -> int:
    rollout_progress = container.rollouts.progress(container.rollouts.records(rollout.id))
    shown = {"rollout": rollout_shapes.rollout(rollout), "progress": rollout_shapes.rollout_progress(rollout_progress)}
    if detach and rollout.state.has_runner:
        line = advice("left to the workers;", ("rollout", "status", rollout.id, "--follow"), "shows its progress")
        result("rollout", shown, [line])
        return 0
    words = rollout.state.value.replace("_", " ")
    result("rollout", shown, [f"rollout {rollout.id} is {words}: {rollout.reason}"])
    problem = problem_of(rollout, rollout_progress, expected=expected)
    if problem is None:
        return 0
    complain(problem)
    return problem.exit_code


def _failure(rollout: "Rollout") -> HaltedError | PartlyDoneError:
    explain, retry = ("rollout", "explain", rollout.id), ("rollout", "retry", rollout.id)
    hint = Hint(explain, ", then", retry, ", promote or abort; runbooks/rollout-halted.md")
    if rollout.state.value == "aborted":
        hint = Hint(
            ("rollback", "--rollout", rollout.id), "rolls back the changed instances;", explain, "has the reasons"
        )
    if rollout.state.value == "halted":
        return HaltedError(f"rollout {rollout.id} is halted: {rollout.reason}", hint=hint)
    return PartlyDoneError(f"rollout {rollout.id} is {rollout.state.replace('_', ' ')}: {rollout.reason}", hint=hint)
