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
    registry = context.compose().registry
    row = registry.rollouts.find(rollout_id)
    told = [one for one in registry.rollout_events.list(row.id) if one.kind in status.HISTORY]
    rows = [status.change(one) for one in told]
    beside = {"rollout": status.rollout(row)}
    table("rollout-history", "changes", ("at", "what", "to", "who", "why"), rows, "nothing happened", beside=beside)


def explain(
    rollout_id: options.Id = "",
    user: Annotated[str, typer.Option(help="Only what is about this user's instance.")] = "",
) -> None:
    """Explain a rollout: each decision in order, with its reason and figures."""
    registry = context.compose().registry
    row = registry.rollouts.find(rollout_id)
    from hermesops.rollout.reports.explain import explain as explained

    titles = {one.id: one.facts.user for one in registry.rollout_targets.list(row.id)}
    told = registry.rollout_events.list(row.id)
    if user:
        instance = registry.instances.find(user)
        told = tuple(one for one in told if instance.id in status.named_in(one))
    result(
        "rollout-explain",
        {"rollout": status.rollout(row), "events": [status.event(one) for one in told]},
        [line for one in explained(told) for line in status.explain_lines(one, titles)],
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
    seen = over(registry.rollout_events.list(row.id), registry.rollout_targets.list(row.id), gates)
    shown = preview.replayed(seen)
    result(
        "rollout-replay",
        {"rollout": status.rollout(row), **shown},
        [preview.replayed_line(seen)],
    )
