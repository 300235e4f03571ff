"""``hermesops instance suspend|resume|resize|move|terminate``: an agent's life, its memory kept all through it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.console import Why, Yes, agree, result
from hermesops.cli.options.no_wait import NoWait, run_or_leave
from hermesops.cli.options.overrides import read_saved
from hermesops.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from hermesops.app.container_parts.connected import Connected
    from hermesops.model.operation import Operation
    from hermesops.operations.kinds import ApprovedList, Keep

ListOption = Annotated[
    Path | None,
    typer.Option("--from", help="With --approved-by: the list that it is on.", show_default=False, dir_okay=False),
]
ApprovedBy = Annotated[
    Path | None,
    typer.Option("--approved-by", help="Another operator's approval of that list.", show_default=False, dir_okay=False),
]
User = Annotated[str, typer.Argument(help="User id, alias or instance id.")]


def suspend(
    user: User,
    reason: Why = "",
    keep: Annotated[
        str, typer.Option("--machine", help="stopped or removed; as the settings say by default.", show_default=False)
    ] = "",
    no_wait: NoWait = False,
) -> None:
    """Suspend an agent: turns end, its state is backed up, its machine is switched off or given back."""
    chosen = _keep(keep) if keep else None
    _run("suspend", user, lambda s: s.instance_requests.suspend(user, keep=chosen, reason=reason), no_wait=no_wait)


def resume(user: User, reason: Why = "", no_wait: NoWait = False) -> None:
    """Resume a suspended agent with its state; on a new machine where the old one was given back."""
    _run("resume", user, lambda s: s.instance_requests.resume(user, reason=reason), no_wait=no_wait)


def resize(
    user: User,
    plan: Annotated[str, typer.Option(help="light or heavy.")],
    reason: Why = "",
    onto_new_machine: Annotated[
        bool, typer.Option("--onto-new-machine", help="Move it to a machine of that size, instead of resizing its own.")
    ] = False,
    listed: ListOption = None,
    approved_by: ApprovedBy = None,
    no_wait: NoWait = False,
) -> None:
    """Change an agent's plan. Its data must fit; its gateway is stopped while the machine changes."""
    from hermesops.instances.requests.provision import parse_plan

    wanted = parse_plan(plan)
    _run(
        "resize",
        user,
        lambda s: s.instance_requests.resize(user, wanted, onto_new_machine=onto_new_machine, reason=reason),
        no_wait=no_wait,
        approved=approved_list(listed, approved_by),
    )


def move(
    user: User,
    reason: Why = "",
    cell: Annotated[str, typer.Option(help="The cell to move to.")] = "",
    region: Annotated[str, typer.Option(help="The region to move to.")] = "",
    no_wait: NoWait = False,
) -> None:
    """Move an agent to a machine of another cell or region; the old one serves until the new one is ready."""
    _run(
        "move", user, lambda s: s.instance_requests.move(user, cell=cell, region=region, reason=reason), no_wait=no_wait
    )


def terminate(
    user: User,
    yes: Yes = False,
    reason: Why = "",
    now: Annotated[bool, typer.Option("--now", help="Terminate at once, without the grace period.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Cancel a scheduled termination.")] = False,
    without_backup: Annotated[
        bool, typer.Option("--without-backup", help="With --now: destroy the agent's state without a backup.")
    ] = False,
    listed: ListOption = None,
    approved_by: ApprovedBy = None,
    no_wait: NoWait = False,
) -> None:
    """Terminate an agent: back it up, prove the backup, suspend it for the days of grace, then destroy its machine.

    Until then --undo cancels that. How many days, and whether a backup must be made, the settings say (grace_days,
    last_backup).
    """
    why = reason or "asked for"
    if undo:
        if now or without_backup:
            raise UsageError("--undo goes alone")
        _run("terminate", user, lambda s: s.instance_requests.resume(user, undo=True, reason=why), no_wait=no_wait)
        return
    composed = context.compose()
    composed.registry.instances.find(user)
    settings, name = composed.env.settings, composed.env.name
    at_once = now or settings.grace_days == 0
    if without_backup and not at_once:
        raise UsageError("--without-backup goes with --now: who has days of grace has a backup")
    keeps_backup = settings.last_backup == "required" and not without_backup
    kept = "; its last backup is kept" if keeps_backup else " with all its memories"
    agree(
        f"This destroys the machine of {user} in environment {name}{kept}."
        if at_once
        else f"This ends the agent of {user} in environment {name}: it is suspended for {settings.grace_days:g} days, "
        "then its machine is destroyed.",
        expect=user,
        spared=f"{user} in {name} is untouched",
        yes=yes,
    )
    _run(
        "terminate",
        user,
        (lambda s: s.instance_requests.terminate(user, keeps_backup=keeps_backup, reason=reason))
        if at_once
        else (lambda s: s.instance_requests.schedule_termination(user, reason=why)),
        no_wait=no_wait,
        approved=approved_list(listed, approved_by),
    )


def approved_list(listed: Path | None, approved_by: Path | None) -> "ApprovedList | None":
    """The list and the approval of it that an operator brings along.

    Raises:
        UsageError: One without the other, or a file cannot be read.
    """
    if listed is None and approved_by is None:
        return None
    if listed is None or approved_by is None:
        raise UsageError("--from LIST and --approved-by APPROVAL go together")
    from hermesops.operations.kinds import ApprovedList

    return ApprovedList(read_saved(listed), read_saved(approved_by))


def _run(
    name: str,
    user: str,
    ask: "Callable[[Connected], Awaitable[Operation]]",
    *,
    no_wait: bool,
    approved: "ApprovedList | None" = None,
) -> None:
    composed = context.compose()
    composed.approved_list = approved
    composed.registry.instances.find(user)

    async def work() -> str:
        async with composed.session() as session:
            return await run_or_leave(session.operations, await ask(session), no_wait=no_wait)

    outcome = context.run(work())
    result(name, {"user": user, "outcome": outcome}, [outcome])


def _keep(text: str) -> "Keep":
    from hermesops.operations.kinds import Keep

    try:
        return Keep(text)
    except ValueError:
        raise UsageError(f"unknown way to keep a machine {text!r}: {', '.join(Keep)}") from None
