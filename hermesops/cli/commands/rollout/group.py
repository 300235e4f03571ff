"""``hermesops rollout``: deploy one release to many instances, in stages that halt when a gate fails."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from hermesops.base.typed_values import one_of
from hermesops.cli import context
from hermesops.cli.commands.rollout import controls, follow, freezes
from hermesops.cli.commands.rollout import preview as rollout_preview
from hermesops.cli.console import Why, advice, is_json, result, table
from hermesops.cli.groups.noun import Noun
from hermesops.cli.options import rollout as options
from hermesops.cli.printing import terminal
from hermesops.cli.views.rollout import preview as preview_view
from hermesops.cli.views.rollout import progress
from hermesops.cli.views.rollout import status as status_view
from hermesops.errors import CHANGES_REMAIN
from hermesops.views.agents import rollout_previews as preview_shapes
from hermesops.views.agents import rollouts as rollout_shapes

if TYPE_CHECKING:
    from hermesops.model.rollout.spec import Spec

app = Noun(no_args_is_help=True)


def _examples(*lines: str) -> str:
    """Examples below the help of a command, each on a line of its own."""
    return "\n".join(("\b", "Examples:", *(f"  hermesops rollout {line}" for line in lines)))


app.command(epilog=_examples("abort", 'abort c6ad29 --reason "crashes on start"'))(controls.abort)
for _verb in (
    *(controls.pause, controls.resume, controls.promote, controls.approve, controls.retry),
    *(freezes.freeze, freezes.unfreeze),
):
    app.command()(_verb)
app.command(lists=True)(freezes.freezes)

Release = Annotated[
    str,
    typer.Argument(
        help="Id of a release, or the agent's version if only one release has it; with --action machine, an image."
    ),
]


def _as_recorded(what: str) -> Any:  # noqa: ANN401 - Typer's own type is not for others
    return typer.Option(help=what, show_default="as recorded")


@app.command(lists=True)
def history(rollout_id: options.Id = "") -> None:
    """List the changes of a rollout's state: time, operator, reason."""
    rollouts = context.compose().rollouts
    row = rollouts.find(rollout_id)
    rows = [rollout_shapes.change(at, event) for at, event in rollouts.changes(row.id)]
    beside = {"rollout": rollout_shapes.rollout(row)}
    table("rollout-history", "changes", ("at", "what", "to", "who", "why"), rows, "nothing happened", beside=beside)


@app.command(epilog=_examples("explain", "explain c6ad29 --user ada"))
def explain(
    rollout_id: options.Id = "",
    user: Annotated[str, typer.Option(help="Only decisions about the instance of this user.")] = "",
) -> None:
    """Explain a rollout: each decision in order, with its reason and figures."""
    from hermesops.agents.rollout.reports.explain import explain as explained

    rollouts = context.compose().rollouts
    row = rollouts.find(rollout_id)
    titles = {target.id: target.facts.user for target in rollouts.targets(row.id)}
    events = rollouts.events(row.id, user=user)
    shown = {"rollout": rollout_shapes.rollout(row), "events": [rollout_shapes.event(event) for event in events]}
    lines = [line for event in events for line in status_view.explain_lines(explained(event), titles)]
    result("rollout-explain", shown, lines)


@app.command()
def replay(
    rollout_id: options.Id = "",
    base_rate: Annotated[float, _as_recorded("Share that fails whatever the release.")] = -1.0,
    bad_rate: Annotated[float, _as_recorded("Share from which on a release is bad.")] = -1.0,
    alpha: Annotated[float, _as_recorded("Probability of taking a good release for a bad one.")] = -1.0,
    beta: Annotated[float, _as_recorded("Probability of taking a bad release for a good one.")] = -1.0,
    early_failures: Annotated[int, _as_recorded("Halt from so many failures on …")] = 0,
    early_rate: Annotated[float, _as_recorded("… once more than this share of those touched failed.")] = -1.0,
    vitals: options.RecordedVitals = "",
) -> None:
    """Replay a recorded rollout with other gates: would they have halted it, and when?"""
    from hermesops.agents.rollout.plan.specs import other_gates

    rollouts = context.compose().rollouts
    row = rollouts.find(rollout_id)
    gates = other_gates(
        row.spec,
        base_rate=base_rate,
        bad_rate=bad_rate,
        alpha=alpha,
        beta=beta,
        early_failures=early_failures,
        early_rate=early_rate,
        vitals=vitals,
    )
    replayed = rollouts.replay(row.id, gates)
    shown = {"rollout": rollout_shapes.rollout(row), **preview_shapes.replayed(replayed)}
    result("rollout-replay", shown, [preview_view.replayed_line(replayed)])


@app.command(epilog=_examples("preview 0.19.0 --all", "preview 0.19.0 --where plan=light --stages 10%,100%"))
@options.takes_spec("confirm_within", "drain", "attempt_within", "defer", "manual_before", "hooks", "on_halt", "drill")
def preview(
    release: Release,
    where: options.Where = "",
    everybody: options.Everybody = False,
    *,
    spec: "Spec",
    action: options.ActionOption = "slot",
) -> None:
    """Preview a rollout: stages, first instances, faults that its gates catch, and the worst case. Changes nothing.

    Where the release is older, it names the settings that each agent would lose.
    """
    from hermesops.agents.rollout.plan.requests import RolloutRequest
    from hermesops.model.rollout.spec import Action

    rollout_preview.show(RolloutRequest(release, where, everybody, spec, one_of(Action, action, "--action"), ""))


@app.command(
    epilog=_examples(
        "start 0.19.0 --all",
        'start 0.19.0 --where cell=cell1 --reason "cell1 first"',
        "start 0.19.0 --all --stages 10%,100% --soak 30m --detach",
        "start hermes-base --action machine --all",
    )
)
@options.takes_spec()
def start(
    release: Release,
    where: options.Where = "",
    everybody: options.Everybody = False,
    *,
    spec: "Spec",
    action: options.ActionOption = "slot",
    reason: Why = "",
    queue: Annotated[
        bool, typer.Option("--queue", help="Wait for the end of a rollout that has some of these instances.")
    ] = False,
    detach: options.Detach = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print the preview, and the settings that agents would lose; change nothing."),
    ] = False,
) -> int:
    """Deploy a release to running instances in stages; the same command continues a rollout that was interrupted.

    The targets are fixed at the start. Each machine tries the release on a copy of its state first, and rolls back by
    itself unless the release is confirmed. A failing gate halts the rollout (exit 8), and failed instances are rolled
    back.

    With --action machine RELEASE is an image: each agent moves, with its memory and its release, to another machine
    that boots it; the previous machine is kept for a while.

    With an older release, it and --dry-run name the settings of each agent that are not in force afterwards.
    """
    from hermesops.agents.rollout.plan.requests import RolloutRequest
    from hermesops.model.rollout.spec import Action

    request = RolloutRequest(release, where, everybody, spec, one_of(Action, action, "--action"), reason)
    if dry_run:
        rollout_preview.show(request)
        return 0
    return follow.start(request, queue=queue, detach=detach)


@app.command("list")
def list_(
    everything: Annotated[bool, typer.Option("--all", help="Ended ones as well.")] = False,
) -> None:
    """List rollouts that have not ended."""
    container = context.compose()
    now, rollouts = container.now(), container.rollouts.list(unfinished=not everything)
    columns = ("id", "release", "state", "since", "who", "reason")
    # An age is for people: a program has the time, and what did not change reads the same again.
    rows = [rollout_shapes.rollout(row) if is_json() else status_view.row(row, now) for row in rollouts]
    empty = advice("no rollout is under way;", ("rollout", "start", "RELEASE", "--all"), "starts one")
    table("rollout-list", "rollouts", columns, rows, empty)


@app.command()
def status(
    rollout_id: options.Id = "",
    everything: Annotated[
        bool, typer.Option("--all", help="All instances, not only changing and failed ones.")
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", "--follow", "-f", help="Follow it until it ends or halts.")] = False,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit 7 while the rollout runs, 8 if it is halted.")
    ] = False,
) -> int:
    """Show a rollout: its stages, its gates with their limits, changing and failed instances, pace and time left.

    With --follow it ends with the rollout: exit 0 for done, 8 for halted, 6 for any other end.
    """
    container = context.compose()
    row = container.rollouts.find(rollout_id)
    if watch:
        return follow.watch(container, row.id)
    records = container.rollouts.records(row.id)
    rollout_progress = container.rollouts.progress(records)
    usual = container.rollouts.durations(records.rollout) if row.state.has_runner else None
    lines = progress.picture(records, rollout_progress, usual, width=terminal.width())
    if everything:
        lines += [progress.target_line(target) for target in records.targets]
    result("rollout-status", rollout_shapes.status(records, rollout_progress), lines)
    if not exit_code:
        return 0
    return CHANGES_REMAIN if records.rollout.state.has_runner else follow.exit_code_of(records.rollout)
