"""Shapes of reports on one instance: its facts, open operations, alerts and last hour."""

from typing import TYPE_CHECKING

from hermesops.errors import Hint
from hermesops.views.agents import instances
from hermesops.views.agents.model_providers import chosen
from hermesops.views.observability.alerts import alert
from hermesops.views.observability.trends import trends
from hermesops.views.operations import operation
from hermesops.views.timestamps import timestamp

if TYPE_CHECKING:
    from datetime import datetime

    from hermesops.agents.health.instance_reports import InstanceAlerts, InstanceReport, OpenWork
    from hermesops.model.recovery.backup import Backup


def report(known: "InstanceReport", now: "datetime") -> dict[str, object]:
    """All that is known of one instance, for programs."""
    return {"instance": facts(known), "alerts": _alerts(known.alerts, now), "trends": trends(known.trends)}


def facts(known: "InstanceReport") -> dict[str, object]:
    """The facts of one instance, with its newest backup and its open operations."""
    observation, machine = known.observation, known.observation.machine
    node = observation.own_node
    running = (node.release if node else "") or (known.release.id if known.release else "")
    is_recorded = known.release is not None and known.release.id == running
    return {
        **instances.observation(observation, known.health),
        "release": running or None,
        "release_since": timestamp(known.release.since) if known.release and is_recorded else None,
        "region": known.region,
        "server_type": (machine.server_type or None) if machine else None,
        "address": machine.address if machine else None,
        "price_monthly": None if known.price is None else f"{known.price:.2f}",
        "backup": _backup(known.backup) if known.backup else None,
        "operations": [_operation(work) for work in known.work],
        "machine_problem": known.problem or None,
        "model_provider": chosen(known.provider.choice) if known.provider.choice else None,
        "model_provider_problem": known.provider.problem or None,
        **instances.suspension(observation.instance, known.suspension),
    }


def _backup(newest: "Backup") -> dict[str, object]:
    return {
        "id": newest.id,
        "at": timestamp(newest.at),
        "why": newest.why,
        "checked_at": timestamp(newest.checked_at),
        "problem": newest.checked or None,
    }


def _operation(work: "OpenWork") -> dict[str, object]:
    return {**operation(work.operation), "holder": work.holder or None, "next": next_command(work)}


def next_command(work: "OpenWork") -> Hint:
    """The command that shows an operation that a process works on, or continues another."""
    verb = ("operation", "show") if work.holder else ("operation", "continue")
    return Hint((*verb, work.operation.id))


def _alerts(alerts: "InstanceAlerts", now: "datetime") -> dict[str, object]:
    return {"problem": alerts.problem or None, "open": [alert(open_alert, now) for open_alert in alerts.open]}
