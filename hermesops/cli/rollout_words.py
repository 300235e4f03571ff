"""What an operator says to a rollout: start, pause, resume, promote, approve, abort, retry; and what follows."""

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context, render_rollout
from hermesops.cli.console import Why, complain, result, say
from hermesops.errors import HaltedError, PartlyDoneError

if TYPE_CHECKING:
    from hermesops.app.app import App
    from hermesops.app.rollout_steering import Word
    from hermesops.app.rollout_wish import Wish
    from hermesops.app.session import Session
    from hermesops.cli.rollout_view import View
    from hermesops.errors import HermesError
    from hermesops.model.rollout import Rollout, RolloutId
    from hermesops.rollout.outlook import Outlook

Id = Annotated[str, typer.Argument(help="Id of the rollout, or its beginning; without it, the one under way.")]
Detach = Annotated[bool, typer.Option("--detach", help="Leave it to the workers; rollout status --watch looks on.")]


def start(wish: "Wish", *, queue: bool, detach: bool) -> int:
    """Begin a rollout, or go on with it."""
    from hermesops.cli.rollout_view import view

    composed = context.compose()
    wish = _with_drill(composed, wish)
    with view(composed.registry.now) as seen:
        composed.tell = seen.tell

        async def work() -> "Rollout":
            async with composed.session() as session:
                if queue:
                    await session.rollouts.await_others(wish)
                rollout, _ = await session.rollouts.start(wish)
                return await _brought(session, rollout, seen, detach=detach)

        rollout = context.run(work())
    return _ended(composed, rollout, wanted="done", detach=detach)


def pause(rollout_id: Id = "", reason: Why = "") -> None:
    """Touch nobody new; those under way are brought to an end, and gates are heard on."""
    from hermesops.app.rollout_steering import steer
    from hermesops.rollout import controls

    composed = context.compose()
    row = composed.registry.find_rollout(rollout_id)
    paused = steer(composed, row.id, lambda seen, said: controls.pause(seen.rollout, said), why=reason or "paused")
    line = f"rollout {row.id} is paused: hermesops rollout resume {row.id} goes on"
    result("rollout", {"rollout": render_rollout.rollout(paused)}, [line])


def resume(rollout_id: Id = "", reason: Why = "", detach: Detach = False) -> int:
    """Go on with a rollout that is paused, or whose runner died; join whoever brings it forward."""
    from hermesops.model.rollout import RolloutState
    from hermesops.rollout import controls

    composed = context.compose()
    row = composed.registry.find_rollout(rollout_id)
    if row.state is not RolloutState.PAUSED and row.state.has_runner:
        return _go_on(composed, row.id, wanted="done", detach=detach)
    return _say(
        composed,
        row.id,
        lambda seen, said: controls.resume(seen.rollout, said),
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
    """Begin the next stage without soak and without what needs a person or more data; a gate that fails still halts.

    After a halt, it forgives what failed so far: you have looked, and answer for it.
    """
    from hermesops.rollout import controls

    composed = context.compose()
    row = composed.registry.find_rollout(rollout_id)
    return _say(
        composed,
        row.id,
        lambda seen, said: controls.promote(seen.rollout, seen.targets, said, full=full),
        why=reason or "promoted",
        wanted="done",
        detach=detach,
    )


def approve(
    rollout_id: Id = "",
    stage: Annotated[int, typer.Option(min=1, help="The last stage that you approve.")] = 1,
    reason: Why = "",
) -> None:
    """Let stages be entered whose blast radius asks for two people; signed with your key, nobody approves their own."""
    from hermesops.app.rollout_approvals import approve as signed

    composed = context.compose()
    row, approver = signed(composed, rollout_id, stage, why=reason or "approved")
    shape = {"rollout": render_rollout.rollout(row), "stage": stage, "approved_by": approver}
    result("rollout-approved", shape, [f"{approver} approved stages up to {stage} of rollout {row.id}"])


def abort(rollout_id: Id = "", reason: Why = "", detach: Detach = False) -> int:
    """Touch nobody new from now on; those under way finish or go back, those that run the release keep it."""
    from hermesops.rollout import controls

    composed = context.compose()
    row = composed.registry.find_rollout(rollout_id)
    return _say(
        composed,
        row.id,
        lambda seen, said: controls.abort(seen.rollout, said),
        why=reason or "aborted",
        wanted="aborted",
        detach=detach,
    )


def retry(rollout_id: Id = "", reason: Why = "", detach: Detach = False) -> int:
    """Give those that failed their turn again, first and through the same gates."""
    from hermesops.rollout import controls

    composed = context.compose()
    row = composed.registry.find_rollout(rollout_id)
    return _say(
        composed,
        row.id,
        lambda seen, said: controls.retry(seen.rollout, seen.targets, said),
        why=reason or "retried",
        wanted="done",
        detach=detach,
    )


def roll_back(composed: "App", row: "Rollout", *, lose: bool, why: str, detach: bool) -> int:
    """Put everybody back whom a rollout brought to its release."""
    from hermesops.rollout import controls

    return _say(
        composed,
        row.id,
        lambda seen, said: controls.roll_back(seen.rollout, seen.targets, said, lose=lose),
        why=why,
        wanted="rolled_back",
        detach=detach,
    )


def watched(composed: "App", rollout_id: "RolloutId") -> int:
    """Look at a rollout until it ends or halts."""
    from hermesops.app.rollout_steering import watch
    from hermesops.cli.rollout_view import view

    with view(composed.registry.now) as seen:
        rollout = context.run(watch(composed, rollout_id, seen.show))
    return _ended(composed, rollout, wanted=rollout.state.value, detach=False) or code_of(rollout)


def code_of(rollout: "Rollout") -> int:
    """The exit code of a rollout that nobody brings forward any more."""
    match rollout.state.value:
        case "done":
            return 0
        case "halted":
            return HaltedError.exit_code
        case _:
            return PartlyDoneError.exit_code


def _with_drill(composed: "App", wish: "Wish") -> "Wish":
    """Where there is a pool, the way back has to be tried on it first; where there is none, nothing can be."""
    from dataclasses import replace

    from hermesops.model.rollout_spec import DrillWish

    if wish.spec.drill is not DrillWish.REQUIRED or any(composed.env.settings.pool_size.values()):
        return wish
    return replace(wish, spec=replace(wish.spec, drill=DrillWish.IF_POSSIBLE))


def _say(composed: "App", rollout_id: "RolloutId", word: "Word", *, why: str, wanted: str, detach: bool) -> int:
    from hermesops.app.rollout_steering import steer

    steer(composed, rollout_id, word, why=why)
    return _go_on(composed, rollout_id, wanted=wanted, detach=detach)


def _go_on(composed: "App", rollout_id: "RolloutId", *, wanted: str, detach: bool) -> int:
    from hermesops.cli.rollout_view import view

    with view(composed.registry.now) as seen:
        composed.tell = seen.tell

        async def work() -> "Rollout":
            async with composed.session() as session:
                return await _brought(session, composed.registry.get_rollout(rollout_id), seen, detach=detach)

        rollout = context.run(work())
    return _ended(composed, rollout, wanted=wanted, detach=detach)


async def _brought(session: "Session", rollout: "Rollout", seen: "View", *, detach: bool) -> "Rollout":
    from hermesops.app.rollout_steering import follow

    if detach:
        session.operations.leave(session.app.registry.reopen_rollout_operation(rollout))
        return rollout
    try:
        return await follow(session, rollout.id, seen.show)
    except asyncio.CancelledError:
        now = session.app.registry.get_rollout(rollout.id)
        say(
            f"rollout {now.id} is {now.state.replace('_', ' ')} and nobody brings it forward now; whoever is not "
            f"confirmed goes back by itself. hermesops rollout resume {now.id} goes on, rollout abort {now.id} ends it"
        )
        raise


def _ended(composed: "App", rollout: "Rollout", *, wanted: str, detach: bool) -> int:
    from hermesops.app.rollout_rows import records
    from hermesops.rollout.outlook import outlook_of

    outlook = outlook_of(records(composed, rollout.id), composed.registry.now())
    shown = {"rollout": render_rollout.rollout(rollout), "outlook": render_rollout.outlook(outlook)}
    if detach:
        line = f"left to the workers: hermesops rollout status {rollout.id} --watch looks on"
        result("rollout", shown, [line])
        return 0
    words = rollout.state.value.replace("_", " ")
    result("rollout", shown, [f"rollout {rollout.id} is {words}: {rollout.reason}"])
    told = problem_of(rollout, outlook, wanted=wanted)
    if told is None:
        return 0
    complain(told)
    return told.exit_code


def problem_of(rollout: "Rollout", outlook: "Outlook", *, wanted: str) -> "HermesError | None":
    """What a rollout came to that is not what was wanted of it; ``None`` when it did.

    Args:
        rollout: As it stands, with nobody who brings it forward.
        outlook: How far it came.
        wanted: The state that was asked for.
    """
    if rollout.state.value != wanted:
        return _failure(rollout)
    if wanted != "done" or outlook.reached == outlook.targets:
        return None
    return PartlyDoneError(
        f"rollout {rollout.id} is done, and not everybody has the release: {rollout.reason}",
        hint=f"hermesops rollout status {rollout.id} names them; "
        f"hermesops rollout start {rollout.release} --where user=… tries one again",
    )


def _failure(rollout: "Rollout") -> HaltedError | PartlyDoneError:
    hint = f"hermesops rollout explain {rollout.id}, then rollout retry, promote or abort; runbooks/rollout-halted.md"
    if rollout.state.value == "halted":
        return HaltedError(f"rollout {rollout.id} is halted: {rollout.reason}", hint=hint)
    return PartlyDoneError(f"rollout {rollout.id} is {rollout.state.replace('_', ' ')}: {rollout.reason}", hint=hint)
