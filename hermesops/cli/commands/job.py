"""``hermesops job``: scheduled jobs, which workers run by themselves."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.console import Why, Yes, advice, agree, result, say, table
from hermesops.cli.groups.noun import Noun
from hermesops.cli.options.instance import ApprovedBy, ListOption, NoWait, approved_list, run_or_leave
from hermesops.views.shapes import timestamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermesops.app.connected import Connected
    from hermesops.app.container import Container
    from hermesops.automation.jobs.runner import Report
    from hermesops.automation.jobs.service import JobState
    from hermesops.store.operations.outcomes import Outcome

app = Noun(no_args_is_help=True)


@app.command("list")
def list_() -> None:
    """List jobs: their pending work, the last run, its problem, and the next run."""
    states = _states(context.compose())
    rows = [shape(state) for state in states]
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
    outcomes = [outcome(job_outcome) for job_outcome in report.outcomes]
    shape = {"job": name, "done": report.done, "problem": report.problem or None, "outcomes": outcomes}
    result("job", shape, [report.done] if report.done else [])
    from hermesops.automation.jobs.service import failure

    if problem := failure(name, report, subjects or ()):
        raise problem


def _states(container: "Container") -> "Sequence[JobState]":
    """All jobs; where no connection can be made, without their pending work."""
    from hermesops.errors import UnavailableError

    async def work(connected: "Connected") -> "Sequence[JobState]":
        return connected.jobs.states()

    try:
        return context.run_connected(container, work)
    except UnavailableError as problem:
        return container.jobs_without_connection(problem).states()


def shape(state: "JobState") -> dict[str, object]:
    """A job with its last run, and when it runs next."""
    job, last = state.job, state.last
    return {
        "job": job.name,
        "what": job.what,
        "by_workers": state.is_chosen,
        "every_s": int(job.every.total_seconds()),
        "due": None if state.problem else len(state.due),
        "due_for": list(state.due[:20]),
        "last": timestamp(last.began_at) if last else None,
        "ended": timestamp(last.ended_at) if last else None,
        "done": last.done if last else None,
        "problem": (last.problem or None) if last else None,
        "holder": state.holder or None,
        "next": _next(state),
    }


def outcome(job_outcome: "Outcome") -> dict[str, object]:
    """The outcome for one of the things that a job was due for."""
    return {
        "subject": job_outcome.subject,
        "operation_id": job_outcome.operation.id if job_outcome.operation else None,
        "outcome": job_outcome.done or None,
        "problem": job_outcome.problem or None,
    }


def _next(state: "JobState") -> str:
    if state.holder:
        return f"now, by {state.holder}"
    if not state.is_chosen:
        return "never by itself"
    if not state.is_late:
        return str(timestamp(state.earliest))
    return "by any worker" if state.due else "when due"
