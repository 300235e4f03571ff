"""``hermesops job``: scheduled jobs, which workers run by themselves."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.console import Why, Yes, advice, agree, result, say, table
from hermesops.cli.groups.noun import Noun
from hermesops.cli.options.dry_run import DryRun, cost_lines, show
from hermesops.cli.options.instance import ApprovedBy, ListOption, NoWait, approved_list, run_or_leave
from hermesops.views.automation import jobs as shapes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermesops.app.connected import Connected
    from hermesops.app.container import Container
    from hermesops.automation.jobs.runner import Report
    from hermesops.automation.jobs.service import JobState

app = Noun(no_args_is_help=True)


@app.command("list")
def list_() -> None:
    """List jobs: their pending work, the last run, its problem, and the next run."""
    states = _states(context.compose())
    rows = [shapes.job(state) for state in states]
    table("job-list", "jobs", ("job", "due", "last", "problem", "next", "done"), rows, "no jobs")
    problem = next((state.problem for state in states if state.problem), None)
    if problem:
        say(advice(f"it is not known what is due: {problem.message};", problem.hint))


@app.command()
def run(
    name: Annotated[str, typer.Argument(help="Name of the job, as hermesops job list shows it.")],
    subjects: Annotated[
        list[str] | None, typer.Argument(help="Only for these: of job pools, names of cells.", show_default=False)
    ] = None,
    yes: Yes = False,
    reason: Why = "",
    listed: ListOption = None,
    approved_by: ApprovedBy = None,
    no_wait: NoWait = False,
    dry_run: DryRun = False,
) -> None:
    """Run one job now, whenever it ran last, and wait for the operations that it opens; for operators and cron.

    Where another process runs the job, the command follows that run and prints its result; with --no-wait it ends with
    4 and names the process.

    backups: backs up agents whose turn of the day has come (cron: every ten minutes). pools: fills or shrinks the warm
    pools of all cells, or of those named, to the size and image of the settings. lifecycle: terminates agents whose
    grace period is over, and destroys machines that agents left (cron: daily, with --yes); above the daily number of
    terminations it needs --from and --approved-by. prune and ended: delete backups. These three list what they destroy
    and ask first.
    """
    container = context.compose()
    container.approved_list = approved_list(listed, approved_by)
    if dry_run:
        _preview(container, name, subjects or ())
        return

    async def work(connected: "Connected") -> "Report":
        manual = connected.jobs.prepare(name, subjects or (), reason=reason)
        for line in manual.destroys:
            say(line)
        if manual.destroys:
            agree(
                f"This {manual.consent} in environment {container.env.name}.",
                expect=container.env.name,
                spared="nothing was changed",
                yes=yes,
            )
        end = partial(run_or_leave, connected.operations, no_wait=no_wait)
        return await connected.jobs.run(name, manual, end, follows=not no_wait)

    report = context.run_connected(container, work)
    result("job", shapes.run(name, report), [report.done] if report.done else [])
    from hermesops.automation.jobs.reports import failure

    if problem := failure(name, report, subjects or ()):
        raise problem


def _preview(container: "Container", name: str, subjects: "Sequence[str]") -> None:
    preview = context.run_connected(container, lambda connected: connected.jobs.preview(name, subjects))
    state = preview.state
    due = "unknown" if state.problem else "; ".join(state.due) or "nothing"
    lines = [f"due: {due}", *(f"destroys {line}" for line in preview.destroys), *cost_lines(preview.cost)]
    show("job-preview", shapes.preview(preview), lines)


def _states(container: "Container") -> "Sequence[JobState]":
    """All jobs; where no connection can be made, without their pending work."""
    from hermesops.errors import UnavailableError

    async def work(connected: "Connected") -> "Sequence[JobState]":
        return connected.jobs.states()

    try:
        return context.run_connected(container, work)
    except UnavailableError as problem:
        return container.jobs_without_connection(problem).states()
