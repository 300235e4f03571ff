"""``hermesops job``: scheduled jobs, which workers run by themselves."""

from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.command_group import Noun
from hermesops.cli.console import result, table
from hermesops.cli.views.shapes import timestamp
from hermesops.errors import Hint, PartlyDoneError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermesops.app.container_parts.runtime import Runtime
    from hermesops.automation.jobs.service import JobState

app = Noun(no_args_is_help=True)


@app.command("list")
def list_() -> None:
    """List jobs: what is pending, the last run, its problem, and the next run."""
    states = context.run_connected(context.compose(), _states)
    rows = [shape(one) for one in states]
    table("job-list", "jobs", ("job", "due", "last", "done", "next", "problem"), rows, "no jobs")


@app.command()
def run(
    name: Annotated[str, typer.Argument(help="Which, as hermesops job list names it.")],
) -> None:
    """Run one job now, as a worker would, whenever it ran last."""
    report = context.run_connected(context.compose(), lambda session: session.jobs.run(name))
    result("job", {"job": name, "done": report.done, "problem": report.problem or None}, [report.done])
    if report.problem:
        raise PartlyDoneError(report.problem, hint=Hint(("job", "run", name), "again"))


async def _states(session: "Runtime") -> "Sequence[JobState]":
    return session.jobs.states()


def shape(state: "JobState") -> dict[str, object]:
    """A job with its last run, and when it runs next."""
    job, last = state.job, state.last
    return {
        "job": job.name,
        "what": job.what,
        "by_workers": state.is_chosen,
        "every_s": int(job.every.total_seconds()),
        "due": len(state.due),
        "due_for": list(state.due[:20]),
        "last": timestamp(last.began_at) if last else None,
        "ended": timestamp(last.ended_at) if last else None,
        "done": last.done if last else None,
        "problem": (last.problem or None) if last else None,
        "holder": state.holder or None,
        "next": _next(state),
    }


def _next(state: "JobState") -> str:
    if state.holder:
        return f"now, by {state.holder}"
    if not state.is_chosen:
        return "never by itself"
    if not state.is_late:
        return str(timestamp(state.earliest))
    return "when a worker looks" if state.due else "when something is due"
