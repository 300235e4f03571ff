"""Shapes and lines of a rollout's preview, and of a replay with other gates."""

from typing import TYPE_CHECKING

from hermesops.cli.console import advice
from hermesops.cli.views.rollout.progress import span
from hermesops.cli.views.shapes import timestamp

if TYPE_CHECKING:
    from hermesops.agents.rollout.plan.preview import RolloutPreview
    from hermesops.agents.rollout.reports.replay import Replayed


def preview(ahead: "RolloutPreview") -> dict[str, object]:
    """What a rollout would do."""
    return {
        "release": ahead.release,
        "targets": len(ahead.targets),
        "at_once": ahead.at_once,
        "stages": [
            {
                "stage": stage.number,
                "batches": list(stage.batches),
                "after": stage.after,
                "strata": stage.strata,
                "of_strata": stage.of,
                "blast_radius": stage.blast_radius,
                "two_people": stage.two_people,
                "compares_health": stage.compares,
                "seconds": round(stage.seconds),
            }
            for stage in ahead.stages
        ],
        "power": [
            {
                "fault_in": power.rate,
                "halted": round(power.halted, 4),
                "halted_in_first_stage": round(power.first_stage, 4),
                "touched": round(power.touched, 2),
                "failed": round(power.failed, 2),
            }
            for power in ahead.powers
        ],
        "false_halt": round(ahead.false_halt, 4),
        "base_rate": ahead.base_rate,
        "worst_hurt": ahead.worst_failed,
        "seen_machines": ahead.seen_machines,
        "seen_in_stage": ahead.seen_in or None,
        "seconds": round(ahead.seconds),
        "canaries": [target.facts.user for target in ahead.canaries],
    }


def preview_lines(ahead: "RolloutPreview", closed: str, held: str) -> list[str]:
    """The same for people.

    Args:
        closed: What forbids it now.
        held: Which open alerts do.
    """
    lines = [f"{ahead.release} to {len(ahead.targets)} instances, {ahead.at_once} at once, in {span(ahead.seconds)}"]
    if closed:
        lines.append(f"not now: {closed}")
    if held:
        lines.append(advice(f"not now: {held};", ("alert", "list"), "says what is next"))
    for stage in ahead.stages:
        batches = "+".join(map(str, stage.batches[:8])) + ("+…" if len(stage.batches) > 8 else "")  # noqa: PLR2004 - a line
        two = ", needs a second operator" if stage.two_people else ""
        lines.append(
            f"stage {stage.number}: batches of {batches}, {stage.after} of {len(ahead.targets)} instances by its end, "
            f"{stage.strata} of {stage.of} kinds, blast radius {stage.blast_radius:g}{two}, about {span(stage.seconds)}"
        )
    lines += [f"first: {', '.join(target.facts.user for target in ahead.canaries[:10])}"]
    lines += [
        f"a fault in {power.rate:.0%} of users: halted with {power.halted:.1%}, in stage 1 with "
        f"{power.first_stage:.1%}; {power.touched:.1f} touched, {power.failed:.1f} failed on average"
        for power in ahead.powers
    ]
    where = f"reached in stage {ahead.seen_in}" if ahead.seen_in else "more than there are"
    return [
        *lines,
        f"a fault in 10% of users shows with 90% on {ahead.seen_machines} machines: {where}",
        f"worst case: a release that breaks every instance fails on {ahead.worst_failed}",
        f"a good release is halted with {ahead.false_halt:.1%} where {ahead.base_rate:.0%} fail anyway",
    ]


def replayed(seen: "Replayed") -> dict[str, object]:
    """What other gates would have made of a rollout."""
    return {
        "halted": seen.halted,
        "touched": seen.touched,
        "failed": seen.failed,
        "recorded_touched": seen.recorded_touched,
        "recorded_failed": seen.recorded_failed,
        "verdicts": [
            {
                "at": timestamp(one.at),
                "stage": one.stage,
                "touched": one.touched,
                "failed": one.failed,
                "result": one.result.value,
                "why": one.why,
            }
            for one in seen.verdicts
        ],
    }


def replayed_line(seen: "Replayed") -> str:
    """The same in one line."""
    did = "would have halted it" if seen.halted else "would not have halted what was recorded"
    return (
        f"these gates {did}: {seen.touched} touched and {seen.failed} failed by then; in truth "
        f"{seen.recorded_touched} and {seen.recorded_failed}"
    )
