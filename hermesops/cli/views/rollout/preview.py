"""Lines of a rollout's preview, and of a replay with other gates."""

from typing import TYPE_CHECKING

from hermesops.base.narration import counted
from hermesops.cli.console import advice
from hermesops.cli.views.rollout.progress import span

if TYPE_CHECKING:
    from hermesops.agents.rollout.plan.preview import RolloutPreview, StageAhead
    from hermesops.agents.rollout.reports.replay import Replayed

_NAMED = 10
"""First users that are named."""


def preview_lines(ahead: "RolloutPreview", closed: str, alerts: str) -> list[str]:
    """The lines of a preview, the first stages first.

    Args:
        closed: What forbids it now.
        held: Which open alerts do.
    """
    total = counted(len(ahead.targets), "agent")
    lines = [f"{ahead.release} to {total}, {ahead.at_once} at once, about {span(ahead.seconds)}"]
    if closed:
        lines.append(f"not now: {closed}")
    if alerts:
        lines.append(advice(f"not now: {alerts};", ("alert", "list"), "has the next step of each alert"))
    lines += [_stage_line(stage, total) for stage in ahead.stages]
    first = [target.facts.user for target in ahead.canaries]
    more = f" and {len(first) - _NAMED} more" if len(first) > _NAMED else ""
    lines += [f"first: {', '.join(first[:_NAMED])}{more}"]
    lines += [
        f"a fault in {power.rate:.0%} of agents: halts with {power.halted:.0%} probability ({power.first_stage:.0%} in "
        f"stage 1), on average after {power.touched:.1f} changed and {power.failed:.1f} failed"
        for power in ahead.powers
    ]
    where = f"reached in stage {ahead.seen_in}" if ahead.seen_in else "more than there are"
    return [
        *lines,
        f"a fault in 10% of agents needs {ahead.seen_machines} agents to show with 90% probability: {where}",
        f"worst case: a release that breaks every agent fails on {counted(ahead.worst_failed, 'agent')}",
        f"a good release halts with {ahead.false_halt:.0%} probability where {ahead.base_rate:.0%} fail anyway",
    ]


def _stage_line(stage: "StageAhead", total: str) -> str:
    batches = "+".join(map(str, stage.batches[:8])) + ("+…" if len(stage.batches) > 8 else "")  # noqa: PLR2004 - a line
    more = " more" if stage.after > sum(stage.batches) else ""
    sizes = f" in batches of {batches}" if len(stage.batches) > 1 else ""
    kinds = f", {stage.strata} of {stage.of} kinds of agents" if stage.of > 1 else ""
    two = ", needs a second operator" if stage.two_people else ""
    return (
        f"stage {stage.number}: {sum(stage.batches)}{more}{sizes} ({stage.after} of {total}){kinds}, about "
        f"{span(stage.seconds)}, blast radius {stage.blast_radius:g}{two}"
    )


def replayed_line(outcome: "Replayed") -> str:
    """The result of a replay in one line."""
    did = "would have halted it" if outcome.halted else "would not have halted what was recorded"
    return (
        f"these gates {did}: {outcome.touched} changed and {outcome.failed} failed by then; recorded: "
        f"{outcome.recorded_touched} and {outcome.recorded_failed}"
    )
