"""``hermesops instance verify``: check one machine in full, or many at once."""

from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.base.narration import counted
from hermesops.cli import context
from hermesops.cli.console import result, say, table
from hermesops.cli.options.instance import find_instance
from hermesops.cli.options.instances import All, Users, Where, choose_instances
from hermesops.errors import CHANGES_REMAIN, Hint, RefusedError, UsageError
from hermesops.views.agents import backups as backup_shapes
from hermesops.views.automation import checks as check_shapes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermesops.agents.instances.remote.several import Outcome
    from hermesops.app import Container
    from hermesops.machines.verify.verification import Verification
    from hermesops.model.fleet.instance import Instance

_COLUMNS = ("user", "verdict", "ok", "failed", "hint")
"""Of the table of several machines."""

_WITHIN_S = 90.0
"""Seconds for one machine, of which the slow checks take most."""


def verify(
    users: Users = None,
    where: Where = "",
    everything: All = False,
    state: Annotated[
        bool, typer.Option("--state", help="Only compare its state with its newest backup; exit 7 if it differs.")
    ] = False,
    failed: Annotated[bool, typer.Option("--failed", help="Show only what is not ok.")] = False,
) -> int:
    """Verify on the machine that the roles' promises hold, in one round trip, and list the failed checks.

    Of several machines, each has a line. Exits with 3 where a check failed, with 4 where a machine could not be
    checked; machines are checked 32 at once, and one that hangs delays no other.
    """
    is_one = bool(users) and len(users or ()) == 1 and not where and not everything
    if state:
        if not is_one:
            raise UsageError("--state compares one agent: name one USER")
        return _state((users or [""])[0])
    if is_one:
        return _one((users or [""])[0], only_failed=failed)
    container = context.compose()
    instances = choose_instances(container, users, where, everything=everything, only_running=True)
    _require_real_machines(container)
    return _several(container, instances, only_failed=failed)


def _require_real_machines(container: "Container") -> None:
    if container.adapters.is_simulated:
        raise RefusedError(
            "the machines of this local world are simulated: they have no units, firewall or files to verify",
            hint=Hint(("local", "down", "--purge"), ", then", ("local", "up", "--driver", "nspawn")),
        )


def _one(user: str, *, only_failed: bool) -> int:
    from hermesops.model.check import Verdict

    container, instance = find_instance(user)
    _require_real_machines(container)
    verified = context.run_connected(container, lambda connected: connected.verify(instance))
    checks = verified.for_user(user)
    shown = [check for check in checks if not only_failed or check.verdict is not Verdict.OK]
    rows = [{**check_shapes.check(check), "hint": "" if check.verdict is Verdict.OK else check.hint} for check in shown]
    table("verify", "checks", ("check", "verdict", "seen", "hint"), rows, "everything is ok")
    fine = sum(check.verdict is Verdict.OK for check in checks)
    warnings = sum(check.verdict is Verdict.WARNING for check in checks)
    noted = f", {counted(warnings, 'warning')}" if warnings else ""
    say(f"{fine} of {len(checks)} checks ok{noted}, round trips: {verified.round_trips}")
    return 0 if verified.is_ok else RefusedError.exit_code


def _several(container: "Container", instances: "Sequence[Instance]", *, only_failed: bool) -> int:
    from hermesops.agents.instances.remote.several import on_each

    count = len(instances)
    outcomes: list[Outcome[Verification]] = []

    def ended(outcome: "Outcome[Verification]") -> None:
        outcomes.append(outcome)
        say(f"{outcome.instance.title}: {check_shapes.verdict(outcome)} ({len(outcomes)} of {count})")

    every = context.run_connected(
        container, lambda connected: on_each(instances, connected.verify, within_s=_WITHIN_S, ended=ended)
    )
    rows = [check_shapes.verification(outcome) for outcome in every]
    shown = [row for row in rows if not only_failed or row["verdict"] != "ok"]
    table("verify-several", "instances", _COLUMNS, shown, f"all {count} are ok")
    return max(check_shapes.exit_code(outcome) for outcome in every)


def _state(user: str) -> int:
    """Print the differences from the newest backup. A running agent goes on learning, so a difference is no fault."""
    container, instance = find_instance(user)
    compared = context.run_connected(container, lambda connected: connected.state_comparisons.with_newest(instance))
    newest, state, differences = compared.backup, compared.state, compared.differences
    lines = differences or [f"as in backup {newest.id[:8]} of {newest.at:%Y-%m-%d %H:%M} UTC: {state}"]
    result("verify-state", backup_shapes.comparison(newest, user, state), lines)
    return CHANGES_REMAIN if differences else 0
