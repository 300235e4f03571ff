"""``instance suspend|resume|reboot|resize|move|terminate``: an agent's life; its state is kept throughout."""

from typing import Annotated

import typer

from hermesops.base.typed_values import one_of
from hermesops.cli import context
from hermesops.cli.console import Why, Yes, agree
from hermesops.cli.options.instance import (
    ApprovedBy,
    DryRun,
    ListOption,
    NoWait,
    User,
    Wait,
    approved_list,
    change_instance,
    why,
)
from hermesops.errors import UsageError


def suspend(
    user: User,
    reason: Why = "",
    keep: Annotated[
        str, typer.Option("--machine", help="stopped or removed; as the settings say by default.", show_default=False)
    ] = "",
    dry_run: DryRun = False,
    no_wait: NoWait = False,
    wait: Wait = "",
) -> None:
    """Suspend an agent: turns end, its state is backed up, its machine is switched off or given back."""
    from hermesops.store.operations.kinds.agents import Keep

    reason = why(reason, dry_run=dry_run)
    chosen = one_of(Keep, keep, "--machine") if keep else None
    change_instance(
        "suspend",
        user,
        lambda s: s.instance_requests.suspend(user, keep=chosen, reason=reason),
        no_wait=no_wait,
        wait=wait,
        dry_run=dry_run,
    )


def resume(user: User, reason: Why = "", dry_run: DryRun = False, no_wait: NoWait = False, wait: Wait = "") -> None:
    """Resume a suspended agent with its state; on a new machine where the old one was given back."""
    reason = why(reason, dry_run=dry_run)
    change_instance(
        "resume",
        user,
        lambda s: s.instance_requests.resume(user, reason=reason),
        no_wait=no_wait,
        wait=wait,
        dry_run=dry_run,
    )


def reboot(user: User, reason: Why = "", dry_run: DryRun = False, no_wait: NoWait = False, wait: Wait = "") -> None:
    """Bring up a machine that does not answer: start it, reboot it, or switch it off and on; one that answers stays.

    It is asked by toolbox and by proxy first, and any answer ends the operation with nothing done.
    """
    reason = why(reason, dry_run=dry_run)
    change_instance(
        "reboot",
        user,
        lambda s: s.instance_requests.reboot(user, reason=reason),
        no_wait=no_wait,
        wait=wait,
        dry_run=dry_run,
    )


def resize(
    user: User,
    plan: Annotated[str, typer.Option(help="light or heavy.")],
    reason: Why = "",
    onto_new_machine: Annotated[
        bool, typer.Option("--onto-new-machine", help="Move it to a machine of that size, instead of resizing its own.")
    ] = False,
    listed: ListOption = None,
    approved_by: ApprovedBy = None,
    dry_run: DryRun = False,
    no_wait: NoWait = False,
    wait: Wait = "",
) -> None:
    """Change an agent's plan. Its data must fit; its gateway is stopped while the machine changes."""
    from hermesops.agents.instances.requests.provision import parse_plan

    reason = why(reason, dry_run=dry_run)
    new_plan = parse_plan(plan)
    change_instance(
        "resize",
        user,
        lambda s: s.instance_requests.resize(user, new_plan, onto_new_machine=onto_new_machine, reason=reason),
        no_wait=no_wait,
        wait=wait,
        dry_run=dry_run,
        approved=approved_list(listed, approved_by),
    )


def move(
    user: User,
    reason: Why = "",
    cell: Annotated[str, typer.Option(help="The cell to move to.")] = "",
    region: Annotated[str, typer.Option(help="The region to move to.")] = "",
    dry_run: DryRun = False,
    no_wait: NoWait = False,
    wait: Wait = "",
) -> None:
    """Move an agent to a machine of another cell or region; the old one serves until the new one is ready."""
    reason = why(reason, dry_run=dry_run)
    change_instance(
        "move",
        user,
        lambda s: s.instance_requests.move(user, cell=cell, region=region, reason=reason),
        no_wait=no_wait,
        wait=wait,
        dry_run=dry_run,
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
    dry_run: DryRun = False,
    no_wait: NoWait = False,
    wait: Wait = "",
) -> None:
    """Terminate an agent: back it up, prove the backup, suspend it for the days of grace, then destroy its machine.

    Until then --undo cancels that. How many days, and whether a backup must be made, the settings say (grace_days,
    last_backup).
    """
    if undo:
        if now or without_backup:
            raise UsageError("--undo goes alone")
        change_instance(
            "terminate",
            user,
            lambda s: s.instance_requests.undo_termination(user, reason=reason or "asked for"),
            no_wait=no_wait,
            wait=wait,
            dry_run=dry_run,
        )
        return
    container = context.compose()
    container.instances.find(user)
    policy, name = container.termination_policy, container.env.name
    termination = policy.choose(now=now, without_backup=without_backup)
    remark = "; its last backup is kept" if termination.keeps_backup else " with all its memories"
    agree(
        f"This destroys the machine of {user} in environment {name}{remark}."
        if termination.at_once
        else f"This ends the agent of {user} in environment {name}: it is suspended for {policy.days:g} days, "
        "then its machine is destroyed.",
        expect=user,
        spared=f"{user} in {name} is untouched",
        yes=yes,
        dry_run=dry_run,
    )
    change_instance(
        "terminate",
        user,
        lambda s: s.instance_requests.end(user, termination, reason=reason),
        no_wait=no_wait,
        wait=wait,
        dry_run=dry_run,
        approved=approved_list(listed, approved_by),
    )
