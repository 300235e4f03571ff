"""``hermesops fleet``: all instances at once."""

from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.command_group import Noun
from hermesops.cli.commands.fleet import cost, outdated, repairs
from hermesops.cli.console import result, table
from hermesops.cli.views import data, fleet
from hermesops.errors import CHANGES_REMAIN
from hermesops.model.plan import GB

if TYPE_CHECKING:
    from hermesops.drift.finding import Finding

app = Noun(no_args_is_help=True)
app.command()(cost.cost)
app.command()(outdated.outdated)
app.command()(repairs.adopt)
app.command()(repairs.remove_orphan)
app.command()(repairs.accept_size)
app.command()(repairs.converge)


@app.callback()
def group() -> None:
    """The whole fleet."""


@app.command()
def status(
    live: Annotated[
        bool, typer.Option("--live", help="First ask JustAVPS which machines there are: one call.")
    ] = False,
) -> None:
    """Show the fleet from the registry: a grid of instances, how many of which kind, who lacks backups or room.

    JustAVPS is not asked, unless by --live: what is told of machines is what it said last, to --live or to fleet drift,
    and when. An instance is `running` because the registry says so; whose machine was not ready then is named.
    """
    from hermesops.model.backup import RPO

    composed = context.compose()
    if live:
        from hermesops.app.services.fleet import list_machines

        context.run(list_machines(composed.registry, composed.vendor, composed.env.name))
    registry = composed.registry
    cells, loss = registry.fleet.tally_cells(), registry.backups.loss(RPO)
    crowded = registry.backups.list_low_on_disk(
        {plan: size * GB for plan, size in composed.env.settings.data_gb.items()}
    )
    machines = registry.observations.confirmation()
    told = {
        **fleet.status(cells),
        "machines": fleet.confirmation(machines),
        "backups": fleet.loss(loss),
        "crowded": data.crowded(crowded),
    }
    lines = [
        *fleet.grid(cells, confirmed=machines.confirmed),
        *fleet.confirmation_lines(machines, cells),
        *fleet.loss_lines(loss),
        *data.crowded_lines(crowded),
    ]
    result("fleet-status", told, lines)


Where = Annotated[str, typer.Option(help="Only of these: plan=heavy,cell=cell1,status=…,user=…")]


@app.command()
def drift(
    where: Where = "",
    deep: Annotated[bool, typer.Option("--deep", help="Ask the machines too: identity, roles, checks.")] = False,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit 7 when something differs or is unknown.")
    ] = False,
) -> int:
    """Compare stacks, registry, vendor and machines, and name the command that repairs each difference.

    Changes nothing. Leaves out what an operation is working on.
    """
    from hermesops.drift.selection import FIELDS
    from hermesops.model.selector import Selector

    selector = Selector.parse(where, fields=FIELDS)
    composed = context.compose()

    async def work() -> "tuple[Finding, ...]":
        async with composed.session() as session:
            return await session.drift.findings(selector, deep=deep)

    findings = context.run(work())
    result("fleet-drift", fleet.drift(findings), fleet.drift_lines(findings))
    return CHANGES_REMAIN if exit_code and any(finding.is_open for finding in findings) else 0


@app.command()
def changes(
    since: Annotated[str, typer.Option(help="An age (90m, 12h, 7d) or a moment in ISO 8601.")],
) -> None:
    """List what happened, oldest first: changes by operators, stack runs, and changes from outside hermesops."""
    from hermesops.app.services.fleet import happenings
    from hermesops.cli.options.durations import since as moment_of

    composed = context.compose()
    found = context.run(happenings(composed.registry, composed.engine, moment_of(since), composed.tell))
    rows = fleet.changes(found)
    table("fleet-changes", "changes", ("at", "who", "what", "subject", "detail"), rows, "nothing happened")
