"""``hermesops fleet adopt|remove-orphan|accept-size|converge``: what repairs machines that differ."""

from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.console import Why, Yes, agree, result, table
from hermesops.cli.views import fleet

if TYPE_CHECKING:
    from hermesops.converge import Converged

Machine = Annotated[str, typer.Argument(help="The machine's name, as fleet drift tells it.")]
MachineId = Annotated[str, typer.Option("--id", help="Its id, where two machines have the name.")]


def adopt(
    machine: Machine,
    machine_id: MachineId = "",
    contested: Annotated[
        bool,
        typer.Option(
            "--contested", help="Even if it cannot prove its identity, or another machine reports the same instance."
        ),
    ] = False,
    reason: Why = "",
) -> None:
    """Assign a machine without an instance to the instance that it reports."""
    from hermesops.app.services.recovery import Orphans

    composed = context.compose()

    async def work() -> str:
        async with composed.vendor() as client:
            orphans = Orphans(composed, client)
            found = await orphans.find(machine, machine_id)
            return await orphans.adopt(found, reason=reason, contested=contested)

    done = context.run(work())
    result("fleet-adopt", {"machine": machine, "outcome": done}, [done])


def remove_orphan(
    machine: Machine,
    machine_id: MachineId = "",
    forget: Annotated[bool, typer.Option("--forget", help="Even if it holds, or may hold, a user's state.")] = False,
    yes: Yes = False,
    reason: Why = "",
) -> None:
    """Destroy a machine without an instance; refused when it holds the only copy of a user's state."""
    from hermesops.app.services.recovery import Orphans

    composed = context.compose()

    async def work() -> None:
        async with composed.vendor() as client:
            orphans = Orphans(composed, client)
            found = await orphans.find(machine, machine_id)
            what = f"This destroys machine {machine} ({found.id}) of environment {composed.env.name} for good."
            agree(what, expect=machine, spared=f"{machine} is untouched", yes=yes)
            await orphans.remove(found, forget=forget, reason=reason)

    context.run(work())
    result("fleet-remove-orphan", {"machine": machine}, [f"machine {machine} is destroyed"])


def accept_size(
    user: Annotated[str, typer.Argument(help="User id, alias or instance id.")],
    reason: Why = "",
) -> None:
    """Accept the size that somebody gave a machine at JustAVPS as the ordered one: disks cannot shrink."""
    from hermesops.app.services.fleet import Drift

    composed = context.compose()
    instance = composed.registry.instances.find(user)

    async def work() -> tuple[str, str]:
        async with composed.session() as session:
            return await Drift(session).accept_size(instance, reason=reason)

    before, now = context.run(work())
    words = f"{user} has a {now}" + (f", ordered as {before} before" if before != now else ", as ordered")
    result("fleet-accept-size", {"user": user, "before": before, "now": now}, [words])


def converge(
    users: Annotated[list[str], typer.Argument(help="User ids, aliases or instance ids.")],
) -> int:
    """Apply the roles to instances' machines: managed files and units become as they should be. Safe to repeat."""
    from hermesops.app.services.fleet import Drift
    from hermesops.errors import PartlyDoneError

    composed = context.compose()
    instances = [composed.registry.instances.find(user) for user in users]

    async def work() -> "Converged":
        async with composed.session() as session:
            return await Drift(session).converge(instances)

    ran = context.run(work())
    table(
        "fleet-converge",
        "instances",
        ("instance", "status", "changed", "failure"),
        fleet.converged(ran),
        "nothing to do",
    )
    return 0 if ran.ok else PartlyDoneError.exit_code
