"""``hermesops job``: scheduled jobs, which workers run by themselves."""

from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.command_group import Noun
from hermesops.cli.console import result, table
from hermesops.cli.views import job as view
from hermesops.errors import PartlyDoneError

if TYPE_CHECKING:
    from hermesops.app.container_parts.runtime import Runtime
    from hermesops.jobs.runner import Report

app = Noun(no_args_is_help=True)


@app.command("list")
def list_() -> None:
    """List jobs: what is pending, the last run, its problem, and the next run."""
    composed = context.compose()

    async def work(session: "Runtime") -> list[dict[str, object]]:
        jobs, registry = session.jobs, composed.registry
        chosen = {job.name for job in jobs.chosen()}
        leases = {lease.subject: lease.holder for lease in registry.leases.list()}
        return [
            view.job(
                job,
                registry.jobs.get(job.name),
                list(job.due()),
                leases,
                now=registry.now(),
                is_chosen=job.name in chosen,
            )
            for job in jobs.all().values()
        ]

    rows = context.run_connected(composed, work)
    table("job-list", "jobs", ("job", "due", "last", "done", "next", "problem"), rows, "no jobs")


@app.command()
def run(
    name: Annotated[str, typer.Argument(help="Which, as hermesops job list names it.")],
) -> None:
    """Run one job now, as a worker would, whenever it ran last."""
    composed = context.compose()

    async def work(session: "Runtime") -> "Report":
        from hermesops.jobs.runner import do_now

        return await do_now(session.jobs.named(name), composed.registry)

    report = context.run_connected(composed, work)
    result("job", {"job": name, "done": report.done, "problem": report.problem or None}, [report.done])
    if report.problem:
        raise PartlyDoneError(report.problem, hint=f"hermesops job run {name} again")
