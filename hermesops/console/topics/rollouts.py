"""Rollouts and freezes, and each rollout with its stages, gates, agents and decisions."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hermesops.agents.rollout.reports.explain import explain
from hermesops.agents.rollout.steps.stage_entry import NEEDS_APPROVAL
from hermesops.console.actions import offers
from hermesops.model.rollout.records import RolloutId
from hermesops.views.agents import rollouts as shapes
from hermesops.views.timestamps import timestamp

if TYPE_CHECKING:
    from hermesops.agents.rollout.ports import Records
    from hermesops.app.container import Container

_LISTED = 50
"""Ended rollouts in the list."""

_DECISIONS = 50
"""Newest decisions of a rollout."""

_GATES = ("answers", "failures", "health", "probe", "messages")
"""Gates in the order of the commands' output."""


def listed(container: "Container", _name: str) -> Mapping[str, Any]:
    """Rollouts that have not ended, some that have, and freezes that hold or are to come."""
    at = container.now()
    rows = container.rollouts.list()
    unfinished = [row for row in rows if not row.state.has_ended]
    ended = [row for row in rows if row.state.has_ended][:_LISTED]
    return {
        "unfinished": [shapes.rollout(row) for row in unfinished],
        "ended": [shapes.rollout(row) for row in ended],
        "freezes": [shapes.freeze(row, at) for row in container.freezes.list()],
        "outdated": len(container.outdated.list()),
    }


def shown(container: "Container", rollout_id: str) -> Mapping[str, Any]:
    """One rollout, with its progress, agents and newest decisions.

    Raises:
        UsageError: There is none of that id.
    """
    records = container.rollouts.records(RolloutId(rollout_id))
    progress = container.rollouts.progress(records)
    shape = shapes.status(records, progress)
    return {
        **shape,
        "gates": _gates(progress.gates),
        "decisions": _decisions(container, records),
        "approve": _approval(records, progress.stages),
        "has_ended": records.rollout.state.has_ended,
        "offered": offers.of_rollout(container.rollout_commands, records),
    }


def approvals(container: "Container", _name: str) -> Mapping[str, Any]:
    """Rollouts with a stage that waits for a second operator."""
    rows = []
    for row in container.rollouts.list(unfinished=True):
        records = container.rollouts.records(row.id)
        stage = _approval(records, container.rollouts.progress(records).stages)
        if stage:
            rows.append({**shapes.rollout(row), "stage": stage})
    return {"rollouts": rows}


def _gates(gates: Mapping[str, Any]) -> Sequence[Mapping[str, str]]:
    """The verdict of each gate that judged, with the figures behind it."""
    verdicts = [(name, gates.get(name)) for name in _GATES]
    return [
        {"gate": name, "result": str(verdict.get("result")), "why": str(verdict.get("why") or "")}
        for name, verdict in verdicts
        if isinstance(verdict, Mapping)
    ]


def _decisions(container: "Container", records: "Records") -> Sequence[Mapping[str, Any]]:
    """The newest decisions first, with the names of users in the place of ids."""
    titles = {target.id: target.facts.user for target in records.targets}
    newest = container.rollouts.events(records.rollout.id)[: -_DECISIONS - 1 : -1]
    decisions = [explain(event) for event in newest]
    return [
        {
            "at": timestamp(decision.at),
            "what": decision.what,
            "why": decision.why,
            "evidence": [_named(line, titles) for line in decision.evidence],
        }
        for decision in decisions
    ]


def _named(line: str, titles: Mapping[Any, str]) -> str:
    for instance_id, title in titles.items():
        line = line.replace(instance_id, title)
    return line


def _approval(records: "Records", stages: Sequence[Any]) -> int | None:
    """The stage that waits for a second operator; ``None`` for none."""
    rollout = records.rollout
    if rollout.state.value != "paused" or NEEDS_APPROVAL not in rollout.reason:
        return None
    return next((stage.number for stage in stages if not stage.batch), 1)
