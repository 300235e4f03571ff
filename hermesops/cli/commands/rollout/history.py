"""What became of a rollout, told from all that was decided: its history, why, and how other gates would judge."""

from typing import Annotated, Any

import typer

from hermesops.cli import context
from hermesops.cli.console import result, table
from hermesops.cli.options import rollout as options
from hermesops.cli.views.rollout import preview, status


def _as_recorded(what: str) -> Any:  # noqa: ANN401 - Typer's own type is not for others
    return typer.Option(help=what, show_default="as recorded")


def history(rollout_id: options.Id = "") -> None:
    """List each change of a rollout's state: when, by whom, why."""
    from hermesops.app.adapters.rollout_store import events_of
    from hermesops.rollout.events import CommandGiven, RolloutStarted, StateChanged

    registry = context.compose().registry
    row = registry.rollouts.find(rollout_id)
    rows = [
        status.change(one.at, one.event)
        for one in events_of(registry, row.id)
        if isinstance(one.event, RolloutStarted | StateChanged | CommandGiven)
    ]
    beside = {"rollout": status.rollout(row)}
    table("rollout-history", "changes", ("at", "what", "to", "who", "why"), rows, "nothing happened", beside=beside)


def explain(
    rollout_id: options.Id = "",
    user: Annotated[str, typer.Option(help="Only what is about this user's instance.")] = "",
) -> None:
    """Explain a rollout: each decision in order, with its reason and figures."""
    from hermesops.app.adapters.rollout_store import events_of
    from hermesops.rollout.events import instances_of
    from hermesops.rollout.reports.explain import explain as explained

    registry = context.compose().registry
    row = registry.rollouts.find(rollout_id)
    titles = {one.id: one.facts.user for one in registry.rollout_targets.list(row.id)}
    events = events_of(registry, row.id)
    if user:
        instance = registry.instances.find(user)
        events = [one for one in events if instance.id in instances_of(one.event)]
    result(
        "rollout-explain",
        {"rollout": status.rollout(row), "events": [status.event(one) for one in events]},
        [line for one in events for line in status.explain_lines(explained(one), titles)],
    )


def replay(
    rollout_id: options.Id = "",
    base_rate: Annotated[float, _as_recorded("Share that fails whatever the release.")] = -1.0,
    bad_rate: Annotated[float, _as_recorded("Share from which on a release is bad.")] = -1.0,
    alpha: Annotated[float, _as_recorded("Probability of taking a good release for a bad one.")] = -1.0,
    beta: Annotated[float, _as_recorded("Probability of taking a bad release for a good one.")] = -1.0,
    early_failures: Annotated[int, _as_recorded("Halt from so many failures on …")] = 0,
    early_rate: Annotated[float, _as_recorded("… once more than this share of those touched failed.")] = -1.0,
    vitals: options.Vitals = "",
) -> None:
    """Replay a recorded rollout with other gates: would they have halted it, and when?"""
    from hermesops.app.adapters.rollout_store import events_of
    from hermesops.rollout.reports.replay import replay as over

    registry = context.compose().registry
    row = registry.rollouts.find(rollout_id)
    gates = options.other_gates(
        row.spec,
        base_rate=base_rate,
        bad_rate=bad_rate,
        alpha=alpha,
        beta=beta,
        early_failures=early_failures,
        early_rate=early_rate,
        vitals=vitals,
    )
    seen = over(events_of(registry, row.id), registry.rollout_targets.list(row.id), gates)
    shown = preview.replayed(seen)
    result(
        "rollout-replay",
        {"rollout": status.rollout(row), **shown},
        [preview.replayed_line(seen)],
    )
