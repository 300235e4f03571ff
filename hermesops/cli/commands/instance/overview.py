"""``hermesops instance list|show``: all instances at a glance, and all that is known of one."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.base import typed_values as values
from hermesops.cli import context
from hermesops.cli.console import advice, is_json, result, say, table
from hermesops.cli.options.instance import User, find_instance
from hermesops.cli.options.watch import Every, Watch, run_if_answered
from hermesops.cli.printing import terminal
from hermesops.cli.views.instance import overview as view
from hermesops.errors import PartlyDoneError
from hermesops.model.fleet.health import Condition
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.views.agents.instance_reports import report as report_shape
from hermesops.views.agents.instances import listed as listed_shape

if TYPE_CHECKING:
    from hermesops.model.plan import Plan

Where = Annotated[
    str,
    typer.Option(
        help="Only of these: plan=heavy,cell=cell1,health=down,region=…,release=…,status=…,user=…", show_default=False
    ),
]


def list_(
    status: Annotated[str, typer.Option(help="Only of this status.")] = "",
    plan: Annotated[str, typer.Option(help="Only of this plan.")] = "",
    cell: Annotated[str, typer.Option(help="Only of this cell.")] = "",
    where: Where = "",
    everything: Annotated[bool, typer.Option("--all", help="Terminated ones as well.")] = False,
    ask: Annotated[
        bool, typer.Option("--ask", help="First ask the agents that should run how they are, for 5 seconds at most.")
    ] = False,
    watch: Watch = False,
    every: Every = "5s",
) -> int:
    """List instances: how each is, and the release that it runs.

    Reads the registry alone: no machine, agent or vendor can delay it. Health is as in `fleet status`: heartbeats and
    answers count for 90 seconds; without a recent fact it is unknown, and an agent that should not run has none. The
    release is the one that was last observed, by rollouts and by each operation on the agent; unknown without that.

    Ends with 6 where --ask had no answer: the list is of what was recorded before.
    """
    container = context.compose()
    instances = container.instance_list
    chosen = partial(
        instances.read,
        instances.selector(where),
        status=values.one_of(InstanceStatus, status, "--status") if status else None,
        plan=_plan(plan) if plan else None,
        cell=container.cells.get(cell).name if cell else None,
        terminated=everything,
    )

    def rows() -> list[dict[str, object]]:
        now, row_of = container.now(), listed_shape if is_json() else view.listed_row
        return [row_of(instance, now) for instance in chosen()]

    empty = "no instance matches" if where else _none()
    if watch:
        from hermesops.cli.printing.watch import watch_list

        def asked() -> list[dict[str, object]]:
            if ask:
                run_if_answered(container.fleet_observation.ask_agents())
            return rows()

        watch_list("instances", view.COLUMNS, asked, empty, every_s=values.seconds(every, "--every"))
        return 0
    is_answered = not ask or run_if_answered(container.fleet_observation.ask_agents())
    listed = rows()
    table("instance-list", "instances", view.columns(listed), listed, empty)
    unknown = sum(row["health"] == Condition.UNKNOWN for row in listed)
    if unknown and not ask:
        say(advice(f"{unknown} of unknown health:", ("instance", "list", "--ask"), "asks the agents"))
    return 0 if is_answered else PartlyDoneError.exit_code


def show(user: User) -> None:
    """Show one instance: health, release, backup, machine, open operations and alerts, and the last hour.

    JustAVPS, the machine and the platform's monitoring are asked; alerts and price are waited for 3 seconds at most,
    the last hour (agent up, memory, seconds of a turn, errors) for 2. Where one of them does not answer, its part is
    unknown, with the reason, and the rest is shown.
    """
    container, instance = find_instance(user)
    report = context.run(container.instance_report(instance))
    now = container.now()
    result("instance", report_shape(report, now), view.report_lines(report, now, in_sections=bool(terminal.width())))


def _none() -> str:
    return advice("no instances;", ("provision", "USER", "--plan", "light"), "makes one")


def _plan(text: str) -> "Plan":
    from hermesops.agents.instances.requests.provision import parse_plan  # dear, and asked for by few

    return parse_plan(text)
