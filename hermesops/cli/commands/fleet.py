"""``hermesops fleet``: state, cost and drift of all instances, and repairs of differences."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.base import typed_values as values
from hermesops.cli import context
from hermesops.cli.commands.rollout import follow
from hermesops.cli.console import Why, Yes, agree, is_json, result, say, table, table_lines
from hermesops.cli.groups.noun import Noun
from hermesops.cli.options.dry_run import DryRun, show
from hermesops.cli.options.rollout import Detach
from hermesops.cli.options.watch import run_if_answered
from hermesops.cli.views.fleet import cost as cost_view
from hermesops.cli.views.fleet import drift as drift_view
from hermesops.cli.views.fleet import grid, notices, trouble
from hermesops.cli.views.fleet import health as health_view
from hermesops.cli.views.fleet import top as top_view
from hermesops.cli.views.fleet import work as work_view
from hermesops.errors import CHANGES_REMAIN, PartlyDoneError, UsageError
from hermesops.model.fleet.health import Condition
from hermesops.views.agents import costs as cost_shapes
from hermesops.views.agents import drift as drift_shapes
from hermesops.views.agents import fleet as fleet_shapes
from hermesops.views.agents import rollouts as rollout_shapes
from hermesops.views.observability import top as top_shapes

if TYPE_CHECKING:
    from collections.abc import Collection

    from hermesops.agents.drift.repairs import Repair
    from hermesops.agents.health.fleet_status import FleetStatus
    from hermesops.app import Container
    from hermesops.observability.telemetry.metrics.top import Top
    from hermesops.vendor.justavps import Machine

app = Noun(no_args_is_help=True)

Where = Annotated[str, typer.Option(help="Only of these: plan=heavy,cell=cell1,status=…,user=…")]

Watch = Annotated[bool, typer.Option("--watch", help="Show it again and again, until Ctrl-C.")]
Every = Annotated[str, typer.Option(help="With --watch: how often, as 5s.")]

_NOT_WELL = frozenset({Condition.DOWN, Condition.SILENT, Condition.DEGRADED})
"""Instances that ``fleet status`` names unless others are chosen."""


_REPAIR_OPTIONS = {"adopt": ("--id", "--contested"), "remove-orphan": ("--id", "--forget"), "accept-size": ()}
"""Options of each repair, beside those of all."""


def _lines(fleet_status: "FleetStatus") -> list[str]:
    is_background_shown = fleet_status.health.judgements or fleet_status.work.waiting
    return [
        *trouble.lines(fleet_status),
        *grid.grid(fleet_status.health),
        *health_view.health_lines(fleet_status.health),
        *health_view.at_once_lines(fleet_status.health, fleet_status.silent_share),
        *(notices.loss_lines(fleet_status.loss) if fleet_status.loss else []),
        *notices.crowded_lines(fleet_status.crowded),
        *notices.freeze_lines(fleet_status.freezes),
        *notices.ending_lines(fleet_status.ending),
        *work_view.operation_lines(fleet_status.stopped, fleet_status.at_work),
        *(
            work_view.background_lines(fleet_status.work, fleet_status.actions, fleet_status.loss, fleet_status.now)
            if is_background_shown
            else []
        ),
    ]


def _none(chosen: "Collection[Condition]") -> str:
    return f"no instance is {' or '.join(sorted(chosen))}"


@app.command()
def cost() -> None:
    """Show the fleet's cost a month: estimated from rows and prices, and as JustAVPS estimates it."""
    costs = context.run(context.compose().read_costs())
    result("fleet-cost", cost_shapes.cost(costs), cost_view.cost_lines(costs))


@app.command(lists=True)
def usage(
    user: Annotated[str, typer.Argument(help="Only this one's.")] = "",
    since: Annotated[
        str, typer.Option(help="From that day on: an age (7d) or a time in ISO 8601 (UTC by default).")
    ] = "30d",
    by: Annotated[str, typer.Option(help="One line for each: user, day, model, provider, outcome.")] = "user",
) -> None:
    """Show agents' use of models as model routers counted it: answers, tokens, US dollars.

    Routers write within seconds; a day is a day of UTC. `failures` are attempts that a provider failed at and requests
    that a router refused.
    """
    from hermesops.users.billing.model_usage import By

    container = context.compose()
    begin = values.since(since, now=container.now()).date()
    sums, total = container.model_usage.sums(begin, by=values.one_of(By, by, "--by"), user=user)
    rows = [cost_shapes.usage(usage_sum) for usage_sum in ([*sums, total] if len(sums) > 1 else sums)]
    columns = ("name", "answers", "failures", "input_tokens", "output_tokens", "usd")
    table("fleet-usage", "usage", columns, rows, f"no agent used a model since {begin}")


@app.command(lists=True)
def outdated(
    deploy: Annotated[bool, typer.Option("--deploy", help="Roll it out to them now, through the same gates.")] = False,
    reason: Why = "",
    detach: Detach = False,
) -> int:
    """List instances that a rollout could not reach, or that came after it, with the release that they shall get."""
    container = context.compose()
    instances = container.outdated.list()
    if not (deploy and instances):
        rows = [rollout_shapes.outdated(instance) for instance in instances]
        columns = ("user", "release", "rollout", "why", "since")
        table("fleet-outdated", "outdated", columns, rows, "no instance is outdated")
        return 0
    return container.outdated.deploy(instances, partial(follow.start, queue=False, detach=detach), reason=reason)


@app.command()
def repair(
    kind: Annotated[
        str,
        typer.Argument(
            help="adopt: assign a machine without an instance to the instance that it reports. remove-orphan: destroy "
            "such a machine. accept-size: keep the size that somebody gave a machine at JustAVPS."
        ),
    ],
    subject: Annotated[str, typer.Argument(help="Name of the machine; of accept-size, the user.")],
    machine_id: Annotated[
        str, typer.Option("--id", help="adopt, remove-orphan: the machine's id, where two have the name.")
    ] = "",
    contested: Annotated[
        bool,
        typer.Option(
            "--contested",
            help="adopt: even if it cannot prove its identity, or another machine reports the same instance.",
        ),
    ] = False,
    forget: Annotated[
        bool, typer.Option("--forget", help="remove-orphan: even if it holds, or may hold, a user's state.")
    ] = False,
    yes: Yes = False,
    reason: Why = "",
    dry_run: DryRun = False,
) -> None:
    """Repair a difference: adopt or destroy a machine without an instance, or accept a machine's size.

    remove-orphan asks first, and is refused when the machine holds the only copy of a user's state. Disks cannot
    shrink: accept-size records the larger size as the ordered one.
    """
    from hermesops.agents.drift.repairs import Repair

    chosen = values.one_of(Repair, kind, "KIND")
    options = {"--id": bool(machine_id), "--contested": contested, "--forget": forget}
    if foreign := [
        name for name, is_given in options.items() if is_given and name not in _REPAIR_OPTIONS[chosen.value]
    ]:
        raise UsageError(f"fleet repair {chosen} takes no {' or '.join(foreign)}")
    container = context.compose()
    if dry_run:
        _preview_repair(container, chosen, subject, machine_id, contested=contested, forget=forget)
        return
    repairs = container.orphan_repairs
    match chosen:
        case Repair.ADOPT:
            done = context.run(repairs.adopt(subject, machine_id, contested=contested, reason=reason))
        case Repair.REMOVE_ORPHAN:
            consent = partial(_agree_to_destroy, container.env.name, yes=yes)
            context.run(repairs.remove(subject, machine_id, forget=forget, reason=reason, consent=consent))
            done = f"machine {subject} is destroyed"
        case Repair.ACCEPT_SIZE:
            instance = container.instances.find(subject)
            sizes = context.run_connected(
                container, lambda connected: connected.drift.accept_size(instance, reason=reason)
            )
            done = drift_view.accepted_size(subject, *sizes)
    result("fleet-repair", drift_shapes.repaired(chosen.value, subject, done), [done])


def _preview_repair(
    container: "Container", repair: "Repair", subject: str, machine_id: str, *, contested: bool, forget: bool
) -> None:
    from hermesops.agents.drift.repairs import Repair

    repairs = container.orphan_repairs
    match repair:
        case Repair.ADOPT:
            instance_id = context.run(repairs.preview_adoption(subject, machine_id, contested=contested))
            shape = drift_shapes.repair_preview(repair, subject, instance_id=instance_id)
            line = f"machine {subject} is assigned to instance {instance_id}"
        case Repair.REMOVE_ORPHAN:
            machine = context.run(repairs.preview_removal(subject, machine_id, forget=forget))
            shape = drift_shapes.repair_preview(repair, subject, machine_id=machine.id)
            line = f"machine {machine.name} ({machine.id}) is destroyed for good"
        case Repair.ACCEPT_SIZE:
            instance = container.instances.find(subject)
            size = context.run_connected(container, lambda connected: connected.drift.size_of(instance))
            shape = drift_shapes.repair_preview(repair, subject, server_type=size)
            line = f"{subject} has a {size}; that becomes the ordered size"
    show("fleet-repair-preview", shape, [line])


def _agree_to_destroy(environment: str, machine: "Machine", *, yes: bool) -> None:
    what = f"This destroys machine {machine.name} ({machine.id}) of environment {environment} for good."
    agree(what, expect=machine.name, spared=f"{machine.name} is untouched", yes=yes)


@app.command(waits=True)
def converge(
    users: Annotated[list[str], typer.Argument(help="User ids, aliases or instance ids.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the tasks that would change something; change nothing.")
    ] = False,
) -> int:
    """Apply the roles to instances' machines: managed files and units become as they should be. Safe to repeat.

    No role restarts a gateway that is as specified, and none costs anything: --dry-run lists tasks alone.
    """
    container = context.compose()
    instances = [container.instances.find(user) for user in users]
    ran = context.run_connected(container, lambda connected: connected.drift.converge(instances, check=dry_run))
    columns = ("instance", "status", "changed", "failure")
    table(
        "fleet-converge",
        "instances",
        columns,
        drift_shapes.converged(ran),
        "nothing to do",
        beside={"dry_run": dry_run},
    )
    if dry_run:
        say("dry run: nothing was changed")
    return 0 if ran.ok else PartlyDoneError.exit_code


@app.command()
def status(
    live: Annotated[
        bool, typer.Option("--live", help="First ask JustAVPS which machines there are: one call.")
    ] = False,
    ask: Annotated[
        bool, typer.Option("--ask", help="First ask the agents that should run how they are, for some seconds.")
    ] = False,
    health: Annotated[
        str, typer.Option(help="Only list instances in one of these conditions: down,silent,degraded,unknown,healthy.")
    ] = "",
    where: Where = "",
    watch: Watch = False,
    every: Every = "5s",
) -> int:
    """Show agents in trouble with their next steps, then a grid of all, backups, room, monitor and workers.

    The registry is read, and open alerts where there is monitoring.

    Each instance that should run is healthy, degraded, down, silent or unknown, by what was recorded last: heartbeats
    and answers of its gateway count for 90 seconds, what JustAVPS told --live or fleet drift of its machine for ten
    minutes. Without a recent fact it is unknown. JustAVPS is not asked, unless by --live, and agents by --ask.
    With --where, what backups would lose is left out: that is counted for the whole fleet.

    Ends with 6 where --live or --ask had no answer: health is of what was recorded before.
    """
    chosen = {values.one_of(Condition, word, "--health") for word in health.split(",")} if health else _NOT_WELL
    container = context.compose()
    selector = container.fleet.selector(where)

    def is_refreshed() -> bool:
        lists = not live or run_if_answered(container.fleet_observation.list_machines())
        return (not ask or run_if_answered(container.fleet_observation.ask_agents())) and lists

    def observed() -> "FleetStatus":
        known = context.run(container.alerts().known()) if container.monitoring.is_known else None
        alerts, unread = (known.open, known.unread) if known else ((), "")
        return container.fleet.status(selector, chosen, alerts, unread=unread)

    if watch:
        from hermesops.cli.printing.watch import watch as show_again

        def lines() -> list[str]:
            is_refreshed()
            fleet_status = observed()
            rows = health_view.judged_table(fleet_status.instances)
            return table_lines(health_view.JUDGED, rows, _none(chosen)) if health else _lines(fleet_status)

        show_again(lines, values.seconds(every, "--every"))
        return 0
    exit_code = 0 if is_refreshed() else PartlyDoneError.exit_code
    fleet_status = observed()
    if health and not is_json():
        table(
            "fleet-status",
            "instances",
            health_view.JUDGED,
            health_view.judged_table(fleet_status.instances),
            _none(chosen),
        )
        return exit_code
    result("fleet-status", fleet_shapes.status(fleet_status), _lines(fleet_status))
    return exit_code


@app.command(lists=True)
def top(
    by: Annotated[str, typer.Option(help="The figure that orders them: memory,restarts,errors,turn,disk.")] = "memory",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=1000, help="So many instances.")] = 10,
    where: Where = "",
    watch: Watch = False,
    every: Every = "5s",
) -> None:
    """List the worst or busiest instances by a figure of the platform's monitoring; restarts and errors of an hour.

    Instances that should run and have no such figure are counted below: nothing is known of them.
    """
    from hermesops.observability.telemetry.metrics.figures import TOP, Figure

    figure = values.one_of(Figure, by, "--by")
    if figure not in TOP:
        raise UsageError(f"--by {by}: one of {', '.join(TOP)}")
    container = context.compose()
    selector = container.fleet.selector(where)

    def observed() -> "Top":
        return context.run(container.fleet_top.read(figure, limit=limit, selector=selector))

    empty = f"Prometheus has no figure of {by}"
    if watch:
        from hermesops.cli.printing.watch import watch as show_again

        def lines() -> list[str]:
            instances = observed()
            return [
                *table_lines(top_view.TOP_COLUMNS, top_view.top_table(instances), empty),
                *top_view.top_notes(instances),
            ]

        show_again(lines, values.seconds(every, "--every"))
        return
    instances = observed()
    rows = top_shapes.instances(instances) if is_json() else top_view.top_table(instances)
    table("fleet-top", "instances", top_view.TOP_COLUMNS, rows, empty, beside=top_shapes.gaps(instances))
    for line in top_view.top_notes(instances):
        say(line)


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
    from hermesops.agents.drift.compare import FIELDS
    from hermesops.model.fleet.selector import Selector

    selector = Selector.parse(where, fields=FIELDS)
    findings = context.run_connected(context.compose(), lambda connected: connected.drift.findings(selector, deep=deep))
    result("fleet-drift", drift_shapes.drift(findings), drift_view.drift_lines(findings))
    return CHANGES_REMAIN if exit_code and any(finding.is_open for finding in findings) else 0


@app.command(lists=True)
def changes(
    since: Annotated[str, typer.Option(help="An age (90m, 12h, 7d) or a time in ISO 8601 (UTC by default).")] = "24h",
) -> None:
    """List changes, oldest first: by operators, by stack runs, and from outside hermesops."""
    happenings = context.run(context.compose().read_happenings(values.since(since)))
    rows = drift_shapes.changes(happenings)
    table("fleet-changes", "changes", ("at", "who", "what", "subject", "detail"), rows, "nothing happened")
