"""Freezes of an environment: spans of time in which nothing is rolled out."""

from typing import TYPE_CHECKING, Annotated

import typer

from hermesops.cli import context
from hermesops.cli.console import advice, result, table
from hermesops.cli.options.dry_run import DryRun, show
from hermesops.cli.views.fleet.notices import freeze_span
from hermesops.views.agents import rollouts as rollout_shapes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermesops.model.rollout.records import Rollout

Reason = Annotated[str, typer.Option("--reason", help="Reason, shown in rollouts that wait.")]


def freezes(
    past: Annotated[bool, typer.Option("--all", help="Past ones as well.")] = False,
) -> None:
    """List freezes of the environment: those that hold now, and those to come."""
    container = context.compose()
    now = container.now()
    rows = [rollout_shapes.freeze(freeze, now) for freeze in container.freezes.list(past=past)]
    table(
        "rollout-freezes",
        "freezes",
        ("id", "state", "begins_at", "ends_at", "reason", "who"),
        rows,
        "no freeze holds or is to come",
    )


def freeze(
    reason: Reason = "",
    begin: Annotated[
        str, typer.Option("--from", help="A time in ISO 8601 (UTC by default), or in 12h; by default now.")
    ] = "",
    until: Annotated[
        str,
        typer.Option(
            "--until", help="A time in ISO 8601 (UTC by default), or in 12h; by default until rollout unfreeze."
        ),
    ] = "",
    dry_run: DryRun = False,
) -> None:
    """Freeze all rollouts of the environment; a running one stops before its next batch."""
    from hermesops.base.typed_values import until as timestamp_of

    container = context.compose()
    now = container.now()
    begins_at = timestamp_of(begin, now=now) if begin else None
    ends_at = timestamp_of(until, now=now) if until else None
    if dry_run:
        _show_preview("stops", container.freezes.preview_set(begins_at=begins_at, ends_at=ends_at))
        return
    created = container.freezes.set(begins_at=begins_at, ends_at=ends_at, reason=reason)
    line = advice(
        f"environment {container.env.name}: rollouts are frozen {freeze_span(created, now)};",
        ("rollout", "unfreeze", created.id, "--reason", "WHY"),
        "ends the freeze",
    )
    result("freeze", {"freeze": rollout_shapes.freeze(created, container.now())}, [line])


def unfreeze(
    freeze_id: Annotated[
        str,
        typer.Argument(help="Id of the freeze, or its beginning; by default the only one.", show_default=False),
    ] = "",
    reason: Reason = "",
    dry_run: DryRun = False,
) -> None:
    """End a freeze now; rollouts continue."""
    container = context.compose()
    if dry_run:
        _show_preview("continues, unless another freeze holds it:", container.freezes.preview_lift(freeze_id))
        return
    lifted = container.freezes.lift(freeze_id, reason=reason)
    result("freeze", {"freeze": rollout_shapes.freeze(lifted, container.now())}, [f"freeze {lifted.id} is lifted"])


def _show_preview(verb: str, rollouts: "Sequence[Rollout]") -> None:
    lines = [f"{verb} rollout {row.id} of {row.release}, {row.state.replace('_', ' ')}" for row in rollouts]
    show("freeze-preview", rollout_shapes.freeze_preview(rollouts), lines or ["no rollout is under way"])
