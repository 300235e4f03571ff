"""Health of instances: conditions, their reasons, and causes that many instances have in common."""

from typing import TYPE_CHECKING

from hermesops.base.narration import counted
from hermesops.cli.console import advice
from hermesops.model.fleet.health import Condition
from hermesops.views.agents.fleet import by_health, judged_instances

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermesops.agents.health.fleet import FleetHealth, JudgedInstance


JUDGED = ("user", "cell", "plan", "health", "reasons")
"""Columns of the table of judged instances."""


def judged_table(instances: "Sequence[JudgedInstance]") -> list[dict[str, object]]:
    """Rows of judged instances for people."""
    return [
        {**row, "reasons": "; ".join(entry.judgement.reasons)}
        for row, entry in zip(judged_instances(instances), instances, strict=True)
    ]


def health_lines(health: "FleetHealth") -> list[str]:
    """Render the number of agents in each condition and the age of the vendor's list; none if none should run."""
    if not health.judgements:
        return []
    counts = by_health(health, health.cells)
    words = ", ".join(f"{counts[condition]} {condition}" for condition in Condition if condition in counts)
    listed = f"{_LISTED} {health.listed_at:%Y-%m-%d %H:%M} UTC" if health.listed_at else _UNLISTED
    return [f"health: {words}; {listed}"]


def at_once_lines(health: "FleetHealth", silent_share: float) -> list[str]:
    """The next step where so many agents are silent or down that one cause outside of their machines is likely.

    Args:
        silent_share: The setting ``monitoring.silent_share``.
    """
    counts = by_health(health, health.cells)
    silent, down = (counts.get(condition, 0) for condition in (Condition.SILENT, Condition.DOWN))
    if not silent and not down:
        return []
    from hermesops.automation.monitor.decide import most_silent

    most, lines = most_silent(silent_share, sum(counts.values())), list[str]()
    if silent > most:
        shows = (
            ("platform", "show"),
            "shows the services that receive heartbeats,",
            ("doctor",),
            "shows what else answers",
        )
        lines.append(advice(f"{counted(silent, 'agent')} silent at once, probably by one cause:", *shows))
    if down > most:
        changes = ("fleet", "changes")
        lines.append(
            advice(
                f"{counted(down, 'agent')} down at once, probably by one cause:", changes, "shows what changed before"
            )
        )
    return lines


_LISTED, _UNLISTED = "JustAVPS listed its machines at", "JustAVPS has not listed its machines yet"
