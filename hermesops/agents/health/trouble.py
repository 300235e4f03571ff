"""Agents that are in trouble, each with since when, why, and the command that is next. Pure."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from hermesops.agents.health.fleet import FleetHealth, JudgedInstance, selected, whole_second
from hermesops.errors import Hint
from hermesops.model.fleet.health import Condition, Judgement

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from hermesops.observability.telemetry.alerts.shown_alerts import OpenAlert

_IN_TROUBLE = frozenset({*Condition} - {Condition.HEALTHY})

_ASK = Hint(("fleet", "status", "--live", "--ask"))


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True)
class Foremost:
    """The first of everything that is wrong or unknown, with the counts of all.

    Attributes:
        trouble: The wrong ones, the most urgent first, then the unknown ones.
        wrong: How many are wrong, listed or not.
        unknown: Of how many agents nothing is known, listed or not.
    """

    trouble: tuple[Trouble, ...]
    wrong: int
    unknown: int


def troubles(health: FleetHealth, alerts: "Sequence[OpenAlert]", now: datetime) -> tuple[Trouble, ...]:
    """Everything that is wrong or unknown, as ``foremost`` lists it."""
    return foremost(health, alerts, now).trouble


def foremost(
    health: FleetHealth,
    alerts: "Sequence[OpenAlert]",
    now: datetime,
    *,
    conditions: "Collection[Condition] | None" = None,
    most: int | None = None,
    text: str = "",
) -> Foremost:
    """The first of everything that is wrong: alerts about no single agent, then agents, the worst condition first.

    A large fleet whose heartbeats stop has one for each agent, and a page has room for some.

    Args:
        alerts: Open ones, the most urgent first; those whose cause is over do not count.
        conditions: Agents in one of them alone, and no other alerts; ``None`` for everything.
        most: How many that are wrong, and how many that are unknown, are listed; ``None`` for all.
        text: Words that each of them has in its names, reasons or alerts; capitals make no difference.
    """
    words = text.casefold().split()
    firing = [alert for alert in alerts if not alert.ending]
    of_agent: defaultdict[str, list[OpenAlert]] = defaultdict(list)
    for alert in firing:
        of_agent[alert.alert.instance].append(alert)
    judged = selected(health, _IN_TROUBLE if conditions is None else _IN_TROUBLE.intersection(conditions))
    unknown, unwell = list[JudgedInstance](), list[JudgedInstance]()
    for instance in judged:
        if words and not _has(words, _words_of(instance, of_agent.get(instance.instance.id, ()))):
            continue
        is_unknown = instance.judgement.condition is Condition.UNKNOWN and instance.instance.id not in of_agent
        (unknown if is_unknown else unwell).append(instance)
    known = {instance.instance.id for instance in unwell} if firing else frozenset[str]()
    others = [alert for alert in firing if alert.alert.instance not in known] if conditions is None else []
    others = [alert for alert in others if _has(words, _words_of_alert(alert))]
    wrong = [*map(_of_alert, others[:most]), *(_of_agent(each, of_agent, now) for each in unwell[:most])]
    doubtful = [_of_agent(each, of_agent, now) for each in unknown[:most]]
    return Foremost((*wrong[:most], *doubtful), len(others) + len(unwell), len(unknown))


def _has(words: "Sequence[str]", texts: "Sequence[str]") -> bool:
    """Whether each of these small words occurs in the texts."""
    content = "\n".join(texts).casefold() if words else ""
    return all(word in content for word in words)


def _words_of(judged: JudgedInstance, alerts: "Sequence[OpenAlert]") -> "list[str]":
    instance, judgement = judged.instance, judged.judgement
    names = [instance.user, instance.id, judged.cell, instance.plan.value, judgement.condition.value]
    return [*names, *judgement.reasons, *(word for alert in alerts for word in _words_of_alert(alert))]


def _words_of_alert(alert: "OpenAlert") -> "list[str]":
    facts = alert.alert
    return [alert.user, facts.cell, facts.name, facts.figure, facts.summary]


def within(alerts: "Sequence[OpenAlert]", health: FleetHealth) -> "tuple[OpenAlert, ...]":
    """Alerts about instances or cells of a part of the fleet."""
    cells: Collection[str] = {cell.cell for cell in health.cells}
    return tuple(
        alert
        for alert in alerts
        if (alert.alert.instance in health.ids if alert.alert.instance else alert.alert.cell in cells)
    )


def _of_agent(judged: JudgedInstance, open_alerts: "Mapping[str, list[OpenAlert]]", now: datetime) -> Trouble:
    judgement, alerts = judged.judgement, open_alerts.get(judged.instance.id, ())
    recorded = [] if judgement.since_s is None else [whole_second(now) - timedelta(seconds=judgement.since_s)]
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
