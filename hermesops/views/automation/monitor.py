"""Shapes of the monitor: its leader, its last pass and the repairs that it began."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermesops.automation.monitor.runner import Monitor, Pass


def ended(monitor: "Monitor") -> dict[str, object]:
    """A monitor that has ended: its last pass, where it made one, and counts of passes, heartbeats and repairs."""
    last, tally = monitor.last, monitor.tally
    repairs = [
        {"action": action, "outcome": outcome, "count": count}
        for (action, outcome), count in sorted(tally.repairs.items())
    ]
    counts = {"passes": tally.passes, "heartbeats": tally.heartbeats, "repairs": repairs}
    return {**(_last_pass(last) if last else {"leads": tally.was_leader}), **counts}


def leader(holder: str, actions: str) -> dict[str, object]:
    """The monitor that acts, and the actions that it may take."""
    return {"leader": holder, "actions": actions}


def _last_pass(last: "Pass") -> dict[str, object]:
    from hermesops.automation.monitor.decide import Continue

    return {
        "leads": True,
        "expected": last.expected,
        "knows_heartbeats": last.knows_heartbeats,
        "sources": {source.value: answers for source, answers in last.sources.items()},
        "suspects": last.verdict.suspects,
        "stopped": {reason.value: why for reason, why in last.verdict.stopped.items()},
        "decisions": [
            {
                "user": decision.user,
                "instance": decision.instance_id,
                "decision": type(decision).__name__,
                "why": decision.why,
            }
            for decision in last.verdict.decisions
            if not isinstance(decision, Continue)
        ],
        "continued": [decision.operation_id for decision in last.verdict.decisions if isinstance(decision, Continue)],
    }
