"""Agents that are in trouble, each with since when, why, and the command that is next. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from hermesops.agents.health.fleet import FleetHealth, JudgedInstance, selected
from hermesops.errors import Hint
from hermesops.model.fleet.health import Condition, Judgement

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from hermesops.observability.telemetry.alerts.shown_alerts import OpenAlert

_IN_TROUBLE = frozenset({*Condition} - {Condition.HEALTHY})

_ASK = Hint(("fleet", "status", "--live", "--ask"))


@dataclass(frozen=True)
class Trouble:
    """One thing that is wrong, or one agent of which nothing is known.

    Attributes:
        subject: The user's alias or id; for an alert about no agent its cell, or ``fleet``.
        judged: The instance; ``None`` for an alert about none, or about one that should not run.
        since: When it began, or was first recorded; ``None`` where that is not known.
        reasons: In plain words, the decisive one first; never empty.
        alerts: Open alerts about it, the most urgent first.
        next: The command that is next.
    """

    subject: str
    judged: JudgedInstance | None
    since: datetime | None
    reasons: tuple[str, ...]
    alerts: "tuple[OpenAlert, ...]"
    next: Hint

    @property
    def is_unknown(self) -> bool:
        """Whether nothing is known to be wrong, and nothing to be well."""
        return not self.alerts and self.judged is not None and self.judged.judgement.condition is Condition.UNKNOWN


def troubles(health: FleetHealth, alerts: "Sequence[OpenAlert]", now: datetime) -> tuple[Trouble, ...]:
    """Everything that is wrong: first alerts about no single agent, then agents, the worst condition first.

    Args:
        alerts: Open ones, the most urgent first; those whose cause is over do not count.
    """
    firing = [alert for alert in alerts if not alert.ending]
    judged = selected(health, _IN_TROUBLE)
    of_agents = [
        _of_agent(instance, [each for each in firing if each.alert.instance == instance.instance.id], now)
        for instance in judged
    ]
    known = {instance.instance.id for instance in judged}
    return (*(_of_alert(alert) for alert in firing if alert.alert.instance not in known), *of_agents)


def within(alerts: "Sequence[OpenAlert]", health: FleetHealth) -> "tuple[OpenAlert, ...]":
    """Alerts about instances or cells of a part of the fleet."""
    cells: Collection[str] = {cell.cell for cell in health.cells}
    return tuple(
        alert
        for alert in alerts
        if (alert.alert.instance in health.ids if alert.alert.instance else alert.alert.cell in cells)
    )


def _of_agent(judged: JudgedInstance, alerts: "Sequence[OpenAlert]", now: datetime) -> Trouble:
    judgement = judged.judgement
    recorded = [] if judgement.since_s is None else [now - timedelta(seconds=judgement.since_s)]
    return Trouble(
        judged.instance.user,
        judged,
        min([*recorded, *(alert.alert.since for alert in alerts)], default=None),
        judgement.reasons,
        tuple(alerts),
        alerts[0].next if alerts else _next(judged.instance.user, judgement),
    )


def _of_alert(alert: "OpenAlert") -> Trouble:
    facts = alert.alert
    subject = alert.user or facts.cell or "fleet"
    return Trouble(subject, None, facts.since, (facts.figure or facts.summary or facts.name,), (alert,), alert.next)


def _next(user: str, judgement: Judgement) -> Hint:
    if judgement.runbook:
        return Hint(("runbook", "run", judgement.runbook, "--instance", user))
    return _ASK if judgement.condition is Condition.UNKNOWN else Hint(("instance", "verify", user))
