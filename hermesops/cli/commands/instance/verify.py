"""``hermesops instance verify``: what a machine promises, and what its agent knows."""

from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.console import result, say, table
from hermesops.cli.views import backup
from hermesops.errors import CHANGES_REMAIN, RefusedError, UnavailableError

if TYPE_CHECKING:
    from hermesops.model.state import State
    from hermesops.verify.verification import Verification

User = Annotated[str, typer.Argument(help="User id, alias or instance id.")]


def verify(
    user: User,
    state: Annotated[
        bool, typer.Option("--state", help="Only compare its state with its newest backup; exit 7 if it differs.")
    ] = False,
) -> int:
    """Check on the machine what the roles promise, in one round trip, and name what is wrong."""
    if state:
        return _verify_state(user)
    from hermesops.model.check import Verdict

    composed = context.compose()

    async def work() -> "Verification":
        instance = composed.registry.instances.find(user)
        async with composed.session() as session:
            return await session.verify(instance)

    verification = context.run(work())
    checks = verification.for_user(user)
    table(
        "verify",
        "checks",
        ("check", "verdict", "seen", "hint"),
        [
            {
                "check": c.name,
                "verdict": c.verdict.value,
                "seen": c.seen,
                "hint": "" if c.verdict is Verdict.OK else c.hint,
            }
            for c in checks
        ],
        "no checks",
    )
    fine = sum(check.verdict is Verdict.OK for check in checks)
    say(f"{fine} of {len(checks)} checks ok, round trips: {verification.round_trips}")
    return 0 if verification.is_ok else RefusedError.exit_code


def _verify_state(user: str) -> int:
    """Tell what differs; an agent that lives goes on learning, so a difference is a finding and no fault."""
    from hermesops.model.ids import MachineId

    composed = context.compose()
    instance = composed.registry.instances.find(user)
    newest = composed.registry.backups.get(instance.id, "")

    async def work() -> "State":
        async with composed.session() as session:
            machine_id = MachineId((await session.instance_client.channel_to(instance)).machine_id)
            state = await session.instance_client.state(machine_id)
        if state is None:
            raise UnavailableError(
                f"machine {instance.machine_name} of {instance.title} does not answer",
                hint=f"hermesops instance show {instance.title}",
            )
        return state

    state = context.run(work())
    differences = newest.state.differences(state)
    lines = list(differences) or [f"as in backup {newest.id[:8]} of {newest.at:%Y-%m-%d %H:%M} UTC: {state}"]
    result("verify-state", backup.comparison(newest, user, state), lines)
    return CHANGES_REMAIN if differences else 0
