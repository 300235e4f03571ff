"""``hermesops fleet``: all instances at once: what they are, cost and lack, and the repairs of what drift names."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.command_group import Noun
from hermesops.cli.commands.rollout import follow
from hermesops.cli.console import Why, Yes, agree, is_json, result, say, table, table_lines
from hermesops.cli.options import values
from hermesops.cli.options.instance import User, find_instance
from hermesops.cli.options.rollout import Detach
from hermesops.cli.views import fleet
from hermesops.cli.views.rollout import status as rollout_view
from hermesops.errors import CHANGES_REMAIN, PartlyDoneError, UsageError
from hermesops.model.health import Condition
from hermesops.model.plan import GB

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from datetime import datetime

    from hermesops.agents.health.fleet import FleetHealth, JudgedInstance
    from hermesops.app import Container
    from hermesops.model.backup import Loss
    from hermesops.model.fleet import LowOnDisk
    from hermesops.model.instance import Instance
    from hermesops.model.operation import BackgroundWork, Operation
    from hermesops.model.rollout import Freeze
    from hermesops.model.selector import Selector
    from hermesops.observability.telemetry.top import Top

app = Noun(no_args_is_help=True)

Where = Annotated[str, typer.Option(help="Only of these: plan=heavy,cell=cell1,status=…,user=…")]
Machine = Annotated[str, typer.Argument(help="The machine's name, as fleet drift tells it.")]
MachineId = Annotated[str, typer.Option("--id", help="Its id, where two machines have the name.")]

Watch = Annotated[bool, typer.Option("--watch", help="Show it again and again, until Ctrl-C.")]
Every = Annotated[str, typer.Option(help="With --watch: how often, as 5s.")]

_NOT_WELL = frozenset({Condition.DOWN, Condition.SILENT, Condition.DEGRADED})
"""Instances that ``fleet status`` names unless others are chosen."""


@dataclass(frozen=True)
class _Status:
    """What ``fleet status`` shows of one moment; ``loss`` is ``None`` for a part of the fleet.

    Attributes:
        actions: The setting ``monitoring.actions``.
        silent_share: The setting ``monitoring.silent_share``.
        ending: Agents whose termination is scheduled, the first to end first.
        stopped: Operations that have not ended and that no process works on.
        at_work: How many others have not ended.
    """

    health: "FleetHealth"
    instances: "tuple[JudgedInstance, ...]"
    loss: "Loss | None"
    crowded: "list[LowOnDisk]"
    work: "BackgroundWork"
    actions: str
    silent_share: float
    freezes: "tuple[Freeze, ...]"
    ending: "tuple[Instance, ...]"
    stopped: "tuple[Operation, ...]"
    at_work: int
    now: "datetime"

    @classmethod
    def read(cls, composed: "Container", selector: "Selector", chosen: "Collection[Condition]") -> "_Status":
        from hermesops.agents.health.fleet import fleet_health, narrowed, selected
        from hermesops.model.backup import RPO
        from hermesops.store.operations.holder import is_gone

        backups, health = composed.registry.backups, fleet_health(composed.registry)
        crowded = backups.list_low_on_disk({plan: gb * GB for plan, gb in composed.env.settings.data_gb.items()})
        now = composed.registry.now()
        freezes = tuple(one for one in composed.registry.freezes.list() if one.holds_at(now))
        settings = composed.env.settings.monitoring
        beside = (composed.registry.operations.background(), settings.actions, settings.silent_share, freezes)
        unfinished = composed.registry.operations.unfinished()
        ending = tuple(composed.registry.instances.list_ending())
        leased = {lease.subject for lease in composed.registry.leases.list() if not is_gone(lease.holder)}
        if not selector.conditions:
            work = (ending, *_at_rest(unfinished, leased))
            return cls(health, selected(health, chosen), backups.loss(RPO), list(crowded), *beside, *work, now)
        health = narrowed(health, selector)
        ending = tuple(one for one in ending if one.id in health.ids)
        work = (ending, *_at_rest([one for one in unfinished if one.instance_id in health.ids], leased))
        users = {one.user for cell in health.cells for one in cell.instances}
        low = [one for one in crowded if one.user in users]
        return cls(health, selected(health, chosen), None, low, *beside, *work, now)

    def rows(self) -> list[dict[str, object]]:
        return fleet.judged_table(self.instances)

    def shape(self) -> dict[str, object]:
        return {
            **fleet.status(self.health),
            "health": fleet.judged(self.health, self.instances),
            "backups": fleet.loss(self.loss) if self.loss else None,
            "crowded": fleet.crowded(self.crowded),
            "freezes": [rollout_view.freeze(one, self.now) for one in self.freezes],
            "ending": fleet.ending(self.ending),
            **fleet.operations(self.stopped, self.at_work),
            **fleet.background(self.work, self.actions),
        }

    def lines(self) -> list[str]:
        return [
            *fleet.grid(self.health),
            *fleet.health_lines(self.health, self.instances),
            *fleet.at_once_lines(self.health, self.silent_share),
            *(fleet.loss_lines(self.loss) if self.loss else []),
            *fleet.crowded_lines(self.crowded),
            *fleet.freeze_lines(self.freezes),
            *fleet.ending_lines(self.ending),
            *fleet.operation_lines(self.stopped, self.at_work),
            *(self._background() if self.health.judgements or self.work.waiting else []),
        ]

    def _background(self) -> list[str]:
        return fleet.background_lines(self.work, self.actions, self.loss, self.now)


def _at_rest(unfinished: "Sequence[Operation]", leased: "Collection[str]") -> "tuple[tuple[Operation, ...], int]":
    """Operations that nobody works on, and how many others there are."""
    stopped = tuple(one for one in unfinished if one.subject not in leased)
    return stopped, len(unfinished) - len(stopped)


def _none(chosen: "Collection[Condition]") -> str:
    return f"no instance is {' or '.join(sorted(chosen))}"


@app.command()
def cost() -> None:
    """Show what the fleet costs a month: estimated from rows and prices, and as JustAVPS estimates it."""
    from hermesops.agents.cells.costs import costs_of

    composed = context.compose()
    costs = context.run(costs_of(composed.registry, composed.vendor, composed.env.name))
    result("fleet-cost", fleet.cost(costs), fleet.cost_lines(costs))


@app.command()
def usage(
    user: Annotated[str, typer.Argument(help="Only this one's.")] = "",
    since: Annotated[
        str, typer.Option(help="From that day on: an age (7d) or a time in ISO 8601 (UTC by default).")
    ] = "30d",
    by: Annotated[str, typer.Option(help="One line for each: user, day, model, provider, outcome.")] = "user",
) -> None:
    """Show what agents used of models, as model routers counted it: answers, tokens, US dollars.

    Routers write within seconds; a day is a day of UTC. `failures` are attempts that a provider failed at and requests
    that a router refused.
    """
    from hermesops.users.billing.model_usage import By, usage_of

    composed = context.compose()
    begin = values.since(since, now=composed.registry.now()).date()
    instance = composed.registry.instances.find(user) if user else None
    sums, total = usage_of(composed.registry, begin, by=values.one_of(By, by, "--by"), instance=instance)
    rows = [fleet.usage(one) for one in ([*sums, total] if len(sums) > 1 else sums)]
    columns = ("name", "answers", "failures", "input_tokens", "output_tokens", "usd")
    table("fleet-usage", "usage", columns, rows, f"no agent used a model since {begin}")


@app.command()
def outdated(
    deploy: Annotated[bool, typer.Option("--deploy", help="Roll it out to them now, through the same gates.")] = False,
    reason: Why = "",
    detach: Detach = False,
) -> int:
    """List instances that a rollout could not reach, or that came after it, with the release that they shall get."""
    from hermesops.agents.rollout import requests as rollout_requests
    from hermesops.agents.rollout.plan.backlog import requests_for

    composed = context.compose()
    found = rollout_requests.outdated(composed.registry)
    if not (deploy and found):
        rows = [rollout_view.outdated(one) for one in found]
        columns = ("user", "release", "rollout", "why", "since")
        table("fleet-outdated", "outdated", columns, rows, "no instance is outdated")
        return 0
    codes = []
    for request in requests_for(found, reason or "outdated", rollout_requests.usual_spec(composed.env.settings)):
        codes.append(follow.start(request, queue=False, detach=detach))
        composed.report(f"deployed {request.release} to the outdated instances")
    return max(codes)


@app.command()
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
    composed = context.compose()

    async def work() -> str:
        async with composed.vendor() as client:
            orphans = composed.orphans(client)
            found = await orphans.find(machine, machine_id)
            return await orphans.adopt(found, reason=reason, contested=contested)

    done = context.run(work())
    result("fleet-adopt", {"machine": machine, "outcome": done}, [done])


@app.command()
def remove_orphan(
    machine: Machine,
    machine_id: MachineId = "",
    forget: Annotated[bool, typer.Option("--forget", help="Even if it holds, or may hold, a user's state.")] = False,
    yes: Yes = False,
    reason: Why = "",
) -> None:
    """Destroy a machine without an instance; refused when it holds the only copy of a user's state."""
    composed = context.compose()

    async def work() -> None:
        async with composed.vendor() as client:
            orphans = composed.orphans(client)
            found = await orphans.find(machine, machine_id)
            what = f"This destroys machine {machine} ({found.id}) of environment {composed.env.name} for good."
            agree(what, expect=machine, spared=f"{machine} is untouched", yes=yes)
            await orphans.remove(found, forget=forget, reason=reason)

    context.run(work())
    result("fleet-remove-orphan", {"machine": machine}, [f"machine {machine} is destroyed"])


@app.command()
def accept_size(user: User, reason: Why = "") -> None:
    """Accept the size that somebody gave a machine at JustAVPS as the ordered one: disks cannot shrink."""
    composed, instance = find_instance(user)
    before, now = context.run_connected(composed, lambda session: session.drift.accept_size(instance, reason=reason))
    words = f"{user} has a {now}" + (f", ordered as {before} before" if before != now else ", as ordered")
    result("fleet-accept-size", {"user": user, "before": before, "now": now}, [words])


@app.command()
def converge(users: Annotated[list[str], typer.Argument(help="User ids, aliases or instance ids.")]) -> int:
    """Apply the roles to instances' machines: managed files and units become as they should be. Safe to repeat."""
    composed = context.compose()
    instances = [composed.registry.instances.find(user) for user in users]
    ran = context.run_connected(composed, lambda session: session.drift.converge(instances))
    columns = ("instance", "status", "changed", "failure")
    table("fleet-converge", "instances", columns, fleet.converged(ran), "nothing to do")
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
) -> None:
    """Show the fleet from the registry: a grid of instances, who lacks backups or room, if monitor and workers run.

    Each instance that should run is healthy, degraded, down, silent or unknown, by what was recorded last: heartbeats
    and answers of its gateway count for 90 seconds, what JustAVPS told --live or fleet drift of its machine for ten
    minutes. Without a recent fact it is unknown. JustAVPS is not asked, unless by --live, and agents by --ask.
    With --where, what backups would lose is left out: that is counted for the whole fleet.
    """
    from hermesops.agents.health.fleet import fleet_selector

    chosen = {values.one_of(Condition, word, "--health") for word in health.split(",")} if health else _NOT_WELL
    composed = context.compose()
    selector = fleet_selector(composed.registry, where)

    def observed() -> "_Status":
        if live:
            from hermesops.automation.monitor.fleet_observation import list_machines

            context.run(list_machines(composed.registry, composed.vendor, composed.env.name))
        if ask:
            from hermesops.automation.monitor.fleet_observation import ask_agents

            context.run(ask_agents(composed.registry, composed.vendor))
        return _Status.read(composed, selector, chosen)

    if watch:
        from hermesops.cli.views.watch import watch as show_again

        def lines() -> list[str]:
            return table_lines(fleet.JUDGED, observed().rows(), _none(chosen)) if health else observed().lines()

        show_again(lines, values.seconds(every, "--every"))
        return
    found = observed()
    if health and not is_json():
        table("fleet-status", "instances", fleet.JUDGED, found.rows(), _none(chosen))
        return
    result("fleet-status", found.shape(), found.lines())


@app.command()
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
    from hermesops.agents.health.fleet import fleet_selector
    from hermesops.observability.telemetry.figures import TOP, Figure
    from hermesops.observability.telemetry.top import fleet_top

    figure = values.one_of(Figure, by, "--by")
    if figure not in TOP:
        raise UsageError(f"--by {by}: one of {', '.join(TOP)}")
    composed = context.compose()
    selector = fleet_selector(composed.registry, where)

    def observed() -> "Top":
        return context.run(
            fleet_top(composed.registry, composed.require_monitoring(), figure, limit=limit, selector=selector)
        )

    empty = f"Prometheus has no figure of {by}"
    if watch:
        from hermesops.cli.views.watch import watch as show_again

        def lines() -> list[str]:
            found = observed()
            return [*table_lines(fleet.TOP_COLUMNS, fleet.top_table(found), empty), *fleet.top_notes(found)]

        show_again(lines, values.seconds(every, "--every"))
        return
    found = observed()
    rows = fleet.top_rows(found) if is_json() else fleet.top_table(found)
    beside = {"by": by, "without": list(found.without), "problems": list(found.problems)}
    table("fleet-top", "instances", fleet.TOP_COLUMNS, rows, empty, beside=beside)
    for line in fleet.top_notes(found):
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
    from hermesops.model.selector import Selector

    selector = Selector.parse(where, fields=FIELDS)
    findings = context.run_connected(context.compose(), lambda session: session.drift.findings(selector, deep=deep))
    result("fleet-drift", fleet.drift(findings), fleet.drift_lines(findings))
    return CHANGES_REMAIN if exit_code and any(finding.is_open for finding in findings) else 0


@app.command()
def changes(
    since: Annotated[str, typer.Option(help="An age (90m, 12h, 7d) or a time in ISO 8601 (UTC by default).")] = "24h",
) -> None:
    """List what happened, oldest first: changes by operators, stack runs, and changes from outside hermesops."""
    from hermesops.agents.drift.service import happenings

    composed = context.compose()
    found = context.run(happenings(composed.registry, composed.engine, values.since(since), composed.report))
    rows = fleet.changes(found)
    table("fleet-changes", "changes", ("at", "who", "what", "subject", "detail"), rows, "nothing happened")
