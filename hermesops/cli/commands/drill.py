"""``hermesops drill``: rehearsals of disaster recovery, and of the runbooks."""

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from hermesops.cli import context
from hermesops.cli.command_group import Noun
from hermesops.cli.console import Yes, advice, agree, complain, result, say, table
from hermesops.cli.options.instance import NoWait, run_operation
from hermesops.cli.views import backup
from hermesops.errors import HermesError, Hint, RefusedError

if TYPE_CHECKING:
    from hermesops.app import Container
    from hermesops.model.instance import Instance
    from hermesops.observability.runbook.drill import Drilled
    from hermesops.observability.runbook.faults import Action, Fault

_RUN = "run"


class _Drills(TyperGroup):
    """``drill NAME`` is ``drill run NAME``."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - Click's own types, which Typer hides
        """Find the command of these words."""
        is_name = bool(args) and not args[0].startswith("-") and args[0] not in self.commands
        return super().resolve_command(ctx, [_RUN, *args] if is_name else args)


app = Noun(no_args_is_help=True, cls=_Drills)


def _begins(incomplete: str) -> list[str]:
    from hermesops.observability.runbook.faults import FAULTS

    return [one.name for one in FAULTS if one.is_drilled and one.name.startswith(incomplete)]


@app.command("list")
def list_() -> None:
    """List faults: which alerts notice each, which runbook ends it, and when it was last drilled.

    One that is not drilled is about more than one machine; tests bring it about.
    """
    from hermesops.app.services import drills
    from hermesops.observability.runbook.faults import FAULTS

    registry = context.compose().registry
    rows: list[dict[str, object]] = []
    for fault in FAULTS:
        last = drills.last(registry, fault)
        rows.append(
            {
                "drill": fault.name,
                "alerts": list(fault.alerts),
                "runbook": fault.runbook,
                "fault": fault.meaning,
                "drilled": fault.is_drilled,
                "last_run": last.at.isoformat(timespec="seconds")
                if last
                else None
                if fault.is_drilled
                else "by tests alone",
                "found": (last.problem or "well") if last else None,
            }
        )
    table("drill-list", "drills", ("drill", "alerts", "runbook", "last_run", "found"), rows, "no drills")


@app.command(_RUN)
def run(
    name: Annotated[str, typer.Argument(help="Of drill list; or a runbook, or an alert.", autocompletion=_begins)],
    yes: Yes = False,
) -> int:
    """Break a machine of the warm pool, run the runbook that is for it, verify, destroy the machine. Also: drill NAME.

    An agent of its own stands for the user, drill-NAME; no user's machine is touched, and without a ready machine in a
    warm pool the drill is refused. Alerts fire for it as for any other. A drill that was killed is begun anew by the
    same command.
    """
    from hermesops.app.services import drills
    from hermesops.observability.runbook import faults

    fault = faults.fault(name)
    if not fault.is_drilled:
        hint = Hint(("runbook", "show", fault.runbook), "ends it; tests bring it about, in a world of their own")
        raise RefusedError(f"{fault.name} is about more than one machine", hint=hint)
    composed = context.compose()
    if fault.needs_local and not composed.env.is_local:
        hint = Hint(("drill", "list"), "names the others")
        raise RefusedError(f"only the local world can bring {fault.name} about: {fault.meaning}", hint=hint)
    user = drills.user_of(fault)
    agree(
        f"This breaks a machine of a warm pool of {composed.env.name} ({fault.meaning}) and destroys it afterwards.",
        expect=fault.name,
        spared="nothing was broken",
        yes=yes,
    )
    if drills.left_over(composed.registry, fault):
        say(f"{user} was left by a drill that was killed")
        _destroy(composed, user)
    instance = context.run_connected(composed, lambda session: drills.provision(session, fault))
    drilled, failure = None, None
    try:
        drilled = _break_and_mend(composed, fault, instance)
    except HermesError as error:
        failure = error
    drills.note(composed.registry, fault, drilled, failure.message if failure else "")
    _destroy(composed, user)
    shown = {
        "drill": fault.name,
        "runbook": fault.runbook,
        "machine_name": instance.machine_name,
        **(vars(drilled) if drilled else {}),
        "problem": failure.message if failure else None,
    }
    result("drill-run", shown, [_line(fault, drilled)] if drilled else [])
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
) -> None:
    """Restore a backup onto a machine out of the warm pool, compare, and destroy the machine; its agent goes on.

    The gateway there never starts, and nothing of the user is on it but the state. Workers do it weekly (drill_days).
    """
    composed = context.compose()
    instance = composed.registry.instances.find(user) if user else None
    operation, outcome = run_operation(
        composed, lambda session: session.drills.open(instance, why="by hand"), no_wait=no_wait
    )
    whose = next(one for one in composed.registry.backups.list() if one.id == operation.intent["snapshot"])
    title = composed.registry.instances.get(whose.instance_id).title
    shown = None if no_wait else backup.backup(whose, title)
    result("drill", {"user": title, "outcome": outcome, "proved": shown}, [outcome])


def _break_and_mend(composed: "Container", fault: "Fault", instance: "Instance") -> "Drilled":
    from hermesops.app.services import drills
    from hermesops.base.waiting import pause_blocking
    from hermesops.cli.options.runbook import execute, folder, show
    from hermesops.observability.runbook import drill
    from hermesops.observability.runbook import service as runbooks
    from hermesops.observability.runbook.document import load
    from hermesops.observability.runbook.faults import AtVendor, ByCommand, OnMachine

    user, why = instance.title, ("--reason", f"drill {fault.name}")

    def inject(action: "Action") -> None:
        match action:
            case AtVendor():
                context.run_connected(composed, lambda session: drills.at_vendor(session, instance, action))
                return
            case ByCommand(words=words):
                pass
            case OnMachine(script=script):
                words = ("instance", "exec", *why, user, script)
        if code := execute(composed, words).exit_code:
            raise RefusedError(f"the fault was not brought about: {' '.join(words)} ended with exit code {code}")

    runbook = load(folder(), fault.runbook)
    values = runbooks.values_of(composed.registry, runbook, instance)
    values = {**values, "USER": user, "INSTANCE": instance.id}
    world = drill.World(
        execute=lambda words: execute(composed, words),
        watch=lambda words: execute(composed, words, shown=False),
        inject=inject,
        clock=time.monotonic,
        pause=pause_blocking,
        report=lambda hint: say(advice(hint)),
        show=show,
    )
    return drill.run(fault.filled(values), runbook.filled(values), user, world)


def _destroy(composed: "Container", user: str) -> None:
    """End a drill's agent and its machine."""
    from hermesops.cli.options.runbook import execute

    words = ("instance", "terminate", user, "--now", "--without-backup", "--yes", "--reason", "the drill is over")
    if execute(composed, words, shown=False).exit_code:
        say(advice(words, "is left to do"))


def _line(fault: "Fault", drilled: "Drilled") -> str:
    changes = f"step {', '.join(drilled.changes)}" if drilled.changes else "itself"
    return (
        f"{fault.name}: it showed after {drilled.shown_s:.0f} s, and {fault.runbook} ended it within "
        f"{drilled.ended_s:.0f} s, by {changes}"
    )
