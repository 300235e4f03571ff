"""``hermesops job``: scheduled jobs, which workers run by themselves."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.command_group import Noun
from hermesops.cli.console import result, table
from hermesops.cli.views.shapes import timestamp
from hermesops.errors import Hint, PartlyDoneError
from hermesops.model.operation import JobRun, job_subject

if TYPE_CHECKING:
    from hermesops.app.container_parts.runtime import Runtime
    from hermesops.automation.jobs.runner import Job, Report

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
            shape(
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
        from hermesops.automation.jobs.runner import do_now

        return await do_now(session.jobs.named(name), composed.registry)

    report = context.run_connected(composed, work)
    result("job", {"job": name, "done": report.done, "problem": report.problem or None}, [report.done])
    if report.problem:
        raise PartlyDoneError(report.problem, hint=Hint(("job", "run", name), "again"))


def shape(
    one: "Job",
    last: JobRun | None,
    due: Sequence[str],
    leases: Mapping[str, str],
    *,
    now: datetime,
    is_chosen: bool,
) -> dict[str, object]:
    """A job with its last run, and when it runs next.

    ``due`` is what is pending, ``leases`` has holders by subject, ``is_chosen`` says whether workers run the job.
    """
    from hermesops.automation.jobs.runner import may_begin_at

    holder = leases.get(job_subject(one.name))
    earliest = may_begin_at(last, one.rest)
    is_late = earliest is None or earliest <= now
    return {
        "job": one.name,
        "what": one.what,
        "by_workers": is_chosen,
        "every_s": int(one.every.total_seconds()),
        "due": len(due),
        "due_for": list(due[:20]),
        "last": timestamp(last.began_at) if last else None,
        "ended": timestamp(last.ended_at) if last else None,
        "done": last.done if last else None,
        "problem": (last.problem or None) if last else None,
        "holder": holder,
        "next": _next(holder, earliest, is_late=is_late, is_due=bool(due), is_chosen=is_chosen),
    }


def _next(holder: str | None, earliest: datetime | None, *, is_late: bool, is_due: bool, is_chosen: bool) -> str:
    if holder:
        return f"now, by {holder}"
    if not is_chosen:
        return "never by itself"
    if not is_late:
        return str(timestamp(earliest))
    return "when a worker looks" if is_due else "when something is due"
