"""``hermesops drill``: rehearsals of disaster recovery, and of the runbooks."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hermesops.cli import context
from hermesops.cli.console import Yes, advice, agree, complain, result, say, table
from hermesops.cli.groups.noun import Group, Noun
from hermesops.cli.options.dry_run import DryRun
from hermesops.cli.options.dry_run import show as show_preview
from hermesops.cli.options.instance import NoWait, Wait, run_operation
from hermesops.cli.options.runbook import show
from hermesops.views.observability import drills as shapes

if TYPE_CHECKING:
    from hermesops.observability.runbook.drill import Drilled
    from hermesops.observability.runbook.fault import Fault

_RUN = "run"


class _Drills(Group):
    """``drill NAME`` is ``drill run NAME``."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - Click's own types, which Typer hides
        """Find the command of these words."""
        is_name = bool(args) and not args[0].startswith("-") and args[0] not in self.commands
        return super().resolve_command(ctx, [_RUN, *args] if is_name else args)


app = Noun(no_args_is_help=True, cls=_Drills)


def _begins(incomplete: str) -> list[str]:
    from hermesops.observability.runbook.faults import FAULTS

    return [fault.name for fault in FAULTS if fault.is_drilled and fault.name.startswith(incomplete)]


@app.command("list")
def list_() -> None:
    """List faults: which alerts notice each, which runbook ends it, and when it was last drilled.

    One that is not drilled is about more than one machine; tests bring it about.
    """
    rows = [shapes.drill(fault, last) for fault, last in context.compose().runbook_drills.list()]
    table("drill-list", "drills", ("drill", "runbook", "last_run", "found", "alerts"), rows, "no drills")


@app.command(_RUN)
def run(
    name: Annotated[str, typer.Argument(help="Of drill list; or a runbook, or an alert.", autocompletion=_begins)],
    yes: Yes = False,
    dry_run: DryRun = False,
) -> int:
    """Break a machine of the warm pool, run the runbook that is for it, verify, destroy the machine. Also: drill NAME.

    An agent of its own stands for the user, drill-NAME; no user's machine is touched, and without a ready machine in a
    warm pool the drill is refused. Alerts fire for it as for any other. A drill that was killed is begun anew by the
    same command.
    """
    from hermesops.agents.drill.service import Stage

    container = context.compose()
    drills = container.runbook_drills
    fault = drills.choose(name)
    if dry_run:
        shape = shapes.drill(fault, drills.last(fault))
        lines = [f"breaks a machine of a warm pool: {fault.meaning}", f"runs runbook {fault.runbook}"]
        show_preview("drill-preview", shape, [*lines, "destroys that machine afterwards"])
        return 0
    agree(
        f"This breaks a machine of a warm pool of {container.env.name} ({fault.meaning}) and destroys it afterwards.",
        expect=fault.name,
        spared="nothing was broken",
        yes=yes,
    )
    done = drills.run(fault, Stage(context.run, report=lambda hint: say(advice(hint)), show=show))
    drilled, failure = done.drilled, done.failure
    result("drill-run", shapes.run(fault, done), [_line(fault, drilled)] if drilled else [])
    if failure is None:
        return 0
    complain(failure)
    return failure.exit_code


@app.command()
def restore(
    user: Annotated[
        str, typer.Argument(help="Whose newest backup; without it, the agent whose last proof is oldest.")
    ] = "",
    no_wait: NoWait = False,
    wait: Wait = "",
) -> None:
    """Restore a backup onto a machine out of the warm pool, compare, and destroy the machine; its agent goes on.

    The gateway there never starts, and nothing of the user is on it but the state. Workers do it weekly (drill_days).
    """
    container = context.compose()
    instance = container.instances.find(user) if user else None
    operation, outcome = run_operation(
        container, lambda session: session.drills.open(instance, why="by hand"), no_wait=no_wait, wait=wait
    )
    restored, owner = container.backup_rows.of_drill(operation)
    result("drill", shapes.restored(owner.title, outcome, None if no_wait else restored), [outcome])


def _line(fault: "Fault", drilled: "Drilled") -> str:
    changes = f"step {', '.join(drilled.changes)}" if drilled.changes else "itself"
    return (
        f"{fault.name}: it showed after {drilled.shown_s:.0f} s, and {fault.runbook} ended it within "
        f"{drilled.ended_s:.0f} s, by {changes}"
    )
