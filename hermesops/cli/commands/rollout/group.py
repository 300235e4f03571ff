"""``hermesops rollout``: one release brought to many, in stages that halt when a gate fails."""

from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.command_group import Noun
from hermesops.cli.commands.rollout import controls, follow, history
from hermesops.cli.console import Why, result, table
from hermesops.cli.options import rollout as options
from hermesops.cli.views.rollout import preview as preview_view
from hermesops.cli.views.rollout import progress
from hermesops.cli.views.rollout import status as status_view
from hermesops.errors import CHANGES_REMAIN

if TYPE_CHECKING:
    from datetime import datetime

    from hermesops.rollout.ports import Records

app = Noun(no_args_is_help=True)
app.command()(controls.pause)
app.command()(controls.resume)
app.command()(controls.promote)
app.command()(controls.approve)
app.command()(controls.abort)
app.command()(controls.retry)
app.command()(history.history)
app.command()(history.explain)
app.command()(history.replay)

Release = Annotated[
    str,
    typer.Argument(
        help="Id of a release, or the agent's version where one release has it; with --action machine, of an image."
    ),
]


@app.callback()
def group() -> None:
    """Rollouts: one release brought to many, in stages that halt when a gate fails."""


@app.command()
def preview(
    release: Release,
    where: options.Where = "",
    everybody: options.Everybody = False,
    stages: options.Stages = "",
    max_unavailable: options.Unavailable = "",
    at_once: options.AtOnce = 0,
    soak: options.Soak = "",
    settle: options.Settle = "",
    windows: options.Windows = None,
    emergency: options.Emergency = "",
    vitals: options.Vitals = "",
    two_person_above: options.TwoPerson = -1.0,
    action: options.ActionOption = "slot",
) -> None:
    """Show what a rollout would do, who is first, what its gates would catch and the worst case. Nothing is touched."""
    from hermesops.rollout.plan.requests import RolloutRequest

    spec = options.spec_of(
        stages=stages,
        max_unavailable=max_unavailable,
        at_once=at_once,
        soak=soak,
        settle=settle,
        windows=windows,
        emergency=emergency,
        vitals=vitals,
        two_person_above=two_person_above,
    )
    composed = context.compose()
    request = RolloutRequest(release, where, everybody, spec, options.parse_action(action), "")
    ahead, closed = composed.rollout_requests.preview(request)
    shown = {**preview_view.preview(ahead), "closed": closed or None}
    result("rollout-preview", {"preview": shown}, preview_view.preview_lines(ahead, closed))


@app.command()
def start(
    release: Release,
    where: options.Where = "",
    everybody: options.Everybody = False,
    stages: options.Stages = "",
    max_unavailable: options.Unavailable = "",
    at_once: options.AtOnce = 0,
    soak: options.Soak = "",
    settle: options.Settle = "",
    confirm_within: options.ConfirmWithin = "",
    drain: options.Drain = "",
    defer: options.Defer = "",
    windows: options.Windows = None,
    emergency: options.Emergency = "",
    manual_before: options.ManualBefore = None,
    hooks: options.HooksOption = None,
    vitals: options.Vitals = "",
    on_halt: options.OnHalt = "",
    drill: options.Drill = "",
    two_person_above: options.TwoPerson = -1.0,
    action: options.ActionOption = "slot",
    reason: Why = "",
    queue: Annotated[bool, typer.Option("--queue", help="Wait for a rollout that has some of them already.")] = False,
    detach: options.Detach = False,
) -> int:
    """Deploy a release to running instances, 5 %, 25 %, 100 %; the same command continues what a killed one began.

    The targets are frozen now. Each machine tries the release on a copy of its state first and goes back by itself
    unless it is confirmed; a failing gate halts the rollout, and failed instances are rolled back. Exit 8: halted.

    With --action machine RELEASE is an image: each agent gets another machine that boots it, with its memory and the
    release that it runs; the machine before is kept for a while.
    """
    from hermesops.rollout.plan.requests import RolloutRequest

    request = RolloutRequest(
        release,
        where,
        everybody,
        options.spec_of(
            stages=stages,
            max_unavailable=max_unavailable,
            at_once=at_once,
            soak=soak,
            settle=settle,
            confirm_within=confirm_within,
            drain=drain,
            defer=defer,
            windows=windows,
            emergency=emergency,
            manual_before=manual_before,
            hooks=hooks,
            vitals=vitals,
            on_halt=on_halt,
            drill=drill,
            two_person_above=two_person_above,
        ),
        options.parse_action(action),
        reason,
    )
    return follow.start(request, queue=queue, detach=detach)


@app.command("list")
def list_(
    everything: Annotated[bool, typer.Option("--all", help="Ended ones as well.")] = False,
) -> None:
    """List rollouts that have not ended."""
    rows = context.compose().registry.rollouts.list(unfinished=not everything)
    table(
        "rollout-list",
        "rollouts",
        ("id", "release", "state", "reason", "who", "updated_at"),
        [status_view.rollout(row) for row in rows],
        "nothing is being rolled out; hermesops rollout start RELEASE --all begins",
    )


@app.command()
def status(
    rollout_id: options.Id = "",
    everything: Annotated[bool, typer.Option("--all", help="Every instance, not only those of note.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Go on looking until it ends or halts.")] = False,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit 7 while it goes on, 8 when it is halted.")
    ] = False,
) -> int:
    """Show a rollout: stages, gates, which targets are in progress, which have failed and why, rate and time left.

    With --watch it ends when the rollout does: exit 0 when it is done, 8 when a gate halted it, 6 when it was ended
    otherwise.
    """
    from hermesops.app.adapters import rollout_store

    composed = context.compose()
    found = rollout_store.records(composed.registry, rollout_id)
    if watch:
        return follow.watched(composed, found.rollout.id)
    shown, lines = _seen(found, composed.registry.now(), everything=everything)
    result("rollout-status", shown, lines)
    if not exit_code:
        return 0
    return follow.code_of(found.rollout) if not found.rollout.state.has_runner else CHANGES_REMAIN


def _seen(found: "Records", now: "datetime", *, everything: bool) -> tuple[dict[str, object], list[str]]:
    from hermesops.rollout.reports.progress import progress_of

    rollout_progress = progress_of(found, now)
    shown: dict[str, object] = {
        "rollout": status_view.rollout(found.rollout),
        "progress": status_view.rollout_progress(rollout_progress),
        "targets": [status_view.target(one) for one in found.targets],
    }
    lines = progress.picture(found, rollout_progress)
    if everything:
        lines += [progress.target_line(one) for one in found.targets]
    return shown, lines
