"""Shapes of the fleet's status: counts by cell, health, backups, pending work and trouble."""

from collections import Counter
from typing import TYPE_CHECKING

from hermesops.model.fleet.health import Condition
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.views.agents.rollouts import freeze
from hermesops.views.operations import unfinished
from hermesops.views.timestamps import timestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from hermesops.agents.health.fleet import FleetHealth, JudgedInstance
    from hermesops.agents.health.fleet_status import FleetStatus
    from hermesops.agents.health.trouble import Trouble
    from hermesops.model.fleet.instance import Instance
    from hermesops.model.fleet.overview import CellTally, LowOnDisk, RecordedInstance
    from hermesops.model.operation import BackgroundWork
    from hermesops.model.recovery.backup import Loss

STATUS_SIGNS = {
    InstanceStatus.PROVISIONING: "P",
    InstanceStatus.SUSPENDED: "S",
    InstanceStatus.TERMINATED: "T",
}
"""Signs in the grid of instances that should not run, or not yet."""

SIGNS = {
    Condition.HEALTHY: ".",
    Condition.DEGRADED: "D",
    Condition.DOWN: "X",
    Condition.SILENT: "-",
    Condition.UNKNOWN: "?",
}
"""Signs of those that should; the one hoped for is small, so that others stand out."""

MONITOR_MAY = {
    "none": "only reports",
    "restart": "may reboot dead machines",
    "all": "may reboot dead machines, and replace those that stay dead",
}
"""Actions of the monitor, by the setting ``monitoring.actions``."""


def status(shown: "FleetStatus") -> dict[str, object]:
    """The fleet at one time; an unknown part is null, with its reason."""
    return {
        **tallies(shown.health),
        "health": judged(shown.health, shown.instances),
        "backups": loss(shown.loss) if shown.loss else None,
        "crowded": crowded(shown.crowded),
        "freezes": [freeze(record, shown.now) for record in shown.freezes],
        "ending": ending(shown.ending),
        "operations": unfinished(shown.stopped, shown.at_work),
        **background(shown.work, shown.actions),
        "trouble": troubles(shown.trouble, shown.now),
        "alerts_unread": shown.unread or None,
    }


def tallies(health: "FleetHealth") -> dict[str, object]:
    """The JSON object of the fleet: counts by status, plan and health, and a grid for each cell."""
    statuses, plans = sums(health.cells)
    return {
        "instances": statuses.total(),
        "by_status": dict(sorted(statuses.items())),
        "by_plan": dict(sorted(plans.items())),
        "by_health": by_health(health, health.cells),
        "unassigned": unassigned(health.cells),
        "cells": [
            {
                "cell": cell.cell,
                "region": cell.region,
                "instances": len(cell.instances),
                "by_status": counts([cell], lambda instance: instance.status),
                "by_plan": counts([cell], lambda instance: instance.plan),
                "by_health": by_health(health, [cell]),
                "unassigned": unassigned([cell]),
                "grid": signs(health, cell),
            }
            for cell in health.cells
        ],
    }


def judged(health: "FleetHealth", instances: "Sequence[JudgedInstance]") -> dict[str, object]:
    """The time of the vendor's last listing, and the chosen instances with the reasons of their judgements."""
    return {"machines_listed_at": timestamp(health.listed_at), "instances": judged_instances(instances)}


def judged_instances(instances: "Sequence[JudgedInstance]") -> list[dict[str, object]]:
    """Instances with the reasons of their judgements."""
    return [
        {
            "user": entry.instance.user,
            "instance_id": entry.instance.id,
            "cell": entry.cell,
            "plan": entry.instance.plan.value,
            "health": entry.judgement.condition.value,
            "reasons": list(entry.judgement.reasons),
        }
        for entry in instances
    ]


def troubles(wrong: "Sequence[Trouble]", now: "datetime") -> list[dict[str, object]]:
    """Everything that is wrong or unknown, the most urgent first."""
    return [
        {
            "user": entry.subject if entry.judged or any(alert.user for alert in entry.alerts) else None,
            "subject": entry.subject,
            "instance_id": entry.judged.instance.id if entry.judged else None,
            "cell": entry.judged.cell if entry.judged else None,
            "health": entry.judged.judgement.condition.value if entry.judged else None,
            "since": timestamp(entry.since),
            "for_s": round((now - entry.since).total_seconds()) if entry.since else None,
            "reasons": list(entry.reasons),
            "alerts": [alert.alert.name for alert in entry.alerts],
            "next": entry.next,
        }
        for entry in wrong
    ]


def background(work: "BackgroundWork", actions: str) -> dict[str, object]:
    """The JSON object of workers and monitor, with the actions that the monitor may take."""
    return {
        "monitor": {"acts": work.monitor or None, "actions": actions, "may": MONITOR_MAY[actions]},
        "workers": {
            "waiting": work.waiting,
            "waiting_since": timestamp(work.waiting_since),
            "at_work": work.is_attended,
            "backups_at": timestamp(work.backups_at),
        },
    }


def counts(cells: "Sequence[CellTally]", kind: "Callable[[RecordedInstance], str]") -> dict[str, int]:
    """Count instances of each kind, by the kind's name."""
    tally = Counter(kind(instance) for cell in cells for instance in cell.instances)
    return {str(name): tally[name] for name in sorted(tally)}


def by_health(health: "FleetHealth", cells: "Sequence[CellTally]") -> dict[str, int]:
    """Count instances that should run, by condition; conditions without instances are left out."""
    conditions = (
        health.judgements[instance.id].condition
        for c in cells
        for instance in c.instances
        if instance.id in health.judgements
    )
    return {condition.value: count for condition, count in sorted(Counter(conditions).items())}


def sums(cells: "Sequence[CellTally]") -> tuple[Counter[str], Counter[str]]:
    """Count instances by status, and by plan."""
    return Counter(counts(cells, lambda instance: instance.status)), Counter(
        counts(cells, lambda instance: instance.plan)
    )


def unassigned(cells: "Sequence[CellTally]") -> dict[str, dict[str, int]]:
    """Machines beside those of instances, by role and status."""
    by_role: dict[str, Counter[str]] = {}
    for cell in cells:
        for (role, status), count in cell.unassigned.items():
            by_role.setdefault(role.value, Counter())[status.value] += count
    return {role: dict(sorted(by_role[role].items())) for role in sorted(by_role)}


def signs(health: "FleetHealth", cell: "CellTally") -> str:
    """A sign for each instance of a cell."""
    return "".join(
        SIGNS[judgement.condition]
        if (judgement := health.judgements.get(instance.id))
        else STATUS_SIGNS[instance.status]
        for instance in cell.instances
    )


def loss(backups: "Loss") -> dict[str, object]:
    """Age of unsaved changes, and how many agents have no recent backup."""
    return {
        "agents": backups.agents,
        "oldest_s": backups.oldest_s,
        "late": backups.late,
        "never": backups.never,
        "objective_s": backups.objective_s,
    }


def crowded(agents: "Sequence[LowOnDisk]") -> list[dict[str, object]]:
    """Agents that are low on disk."""
    return [
        {"user": agent.user, "plan": agent.plan.value, "bytes": agent.bytes, "size": agent.size} for agent in agents
    ]


def ending(agents: "Sequence[Instance]") -> list[dict[str, object]]:
    """JSON objects of the agents with a scheduled termination."""
    return [{"user": agent.title, "ends_at": timestamp(agent.grace_until)} for agent in agents]
