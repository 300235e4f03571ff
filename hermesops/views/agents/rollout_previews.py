"""Shapes of a rollout before it begins, and of a replay with other gates."""

from typing import TYPE_CHECKING

from hermesops.views.agents import rollouts
from hermesops.views.timestamps import timestamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermesops.agents.rollout.plan.checks import RequestPreview
    from hermesops.agents.rollout.plan.losses import AgentLosses
    from hermesops.agents.rollout.plan.preview import RolloutPreview
    from hermesops.agents.rollout.reports.replay import Replayed


def preview(ahead: "RolloutPreview") -> dict[str, object]:
    """The JSON shape of a preview."""
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


def start(ahead: "RequestPreview", losses: "Sequence[AgentLosses]") -> dict[str, object]:
    """A start: the preview of the rollout, the freezes and alerts that hold it now, and the losses of each agent."""
    held = {"closed": ahead.closed or None, "held": ahead.held or None}
    return {**preview(ahead.ahead), **held, "losses": [rollouts.losses(agent) for agent in losses]}


def replayed(outcome: "Replayed") -> dict[str, object]:
    """The JSON shape of a replay with other gates."""
    return {
        "halted": outcome.halted,
        "touched": outcome.touched,
        "failed": outcome.failed,
        "recorded_touched": outcome.recorded_touched,
        "recorded_failed": outcome.recorded_failed,
        "verdicts": [
            {
                "at": timestamp(verdict.at),
                "stage": verdict.stage,
                "touched": verdict.touched,
                "failed": verdict.failed,
                "result": verdict.result.value,
                "why": verdict.why,
            }
            for verdict in outcome.verdicts
        ],
    }
