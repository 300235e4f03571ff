"""``hermesops chore``: what workers do without being asked."""

from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.command_group import Noun
from hermesops.cli.console import result, table
from hermesops.cli.views import chore as chore_view
from hermesops.errors import PartlyDoneError

if TYPE_CHECKING:
    from hermesops.jobs.runner import Report

app = Noun(no_args_is_help=True)


@app.callback()
def group() -> None:
    """Chores: what workers do without being asked."""


@app.command("list")
def list_() -> None:
    """List chores: what is due now, when each was done last, what went wrong, and when it is done next."""
    composed = context.compose()

    async def work() -> list[dict[str, object]]:
        from hermesops.app.services.jobs import Errands

        async with composed.session() as session:
            errands = Errands(session)
            chosen = {chore.name for chore in errands.chosen()}
            leases = {lease.subject: lease.holder for lease in composed.registry.list_leases()}
            return [
                chore_view.chore(
                    chore,
                    composed.registry.chore_turn(chore.name),
                    list(chore.due()),
                    leases,
                    now=composed.registry.now(),
                    is_chosen=chore.name in chosen,
                )
                for chore in errands.all().values()
            ]

    rows = context.run(work())
    table("chore-list", "chores", ("chore", "due", "last", "done", "next", "problem"), rows, "no chores")


@app.command()
def run(
    name: Annotated[str, typer.Argument(help="Which, as hermesops chore list names it.")],
) -> None:
    """Do what is due of one chore now, as a worker would, whenever it was done last."""
    composed = context.compose()

    async def work() -> "Report":
        from hermesops.app.services.jobs import Errands
        from hermesops.jobs.runner import do_now

        async with composed.session() as session:
            return await do_now(Errands(session).named(name), composed.registry)

    report = context.run(work())
    result("chore", {"chore": name, "done": report.done, "problem": report.problem or None}, [report.done])
    if report.problem:
        raise PartlyDoneError(report.problem, hint=f"hermesops chore run {name} again")
