"""Events of one instance, as the registry and the platform's monitoring have recorded them."""

import math
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from hermesops.agents.drift.history.changes import Happening, alert_changes, counted_restarts, message_counts, timeline
from hermesops.agents.health.samples.sample import HealthSample
from hermesops.errors import HermesError, UnavailableError
from hermesops.model.ids import instance_subject
from hermesops.observability.telemetry.metrics.figures import matching
from hermesops.observability.telemetry.metrics.prometheus import Metrics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hermesops.model.fleet.instance import Instance
    from hermesops.observability.telemetry.client import MonitoringClient
    from hermesops.store.registry import Registry

_RESTARTS = "max by (instance_id) (hermes_gateway_restarts_total{$of})"
_LONGEST = timedelta(days=7)
"""How far back monitoring is asked where nothing was said."""

_POINTS = 5000
"""Points of one series: times of older events are less exact."""

_STEP_S = 30.0
_WITHIN_S = 5.0

_ENTRIES = 10_000
"""Newest audit entries of a subject, and newest operations, that are read."""


@dataclass(frozen=True)
class Monitored:
    """Past events of one instance in monitoring.

    Attributes:
        counts_since: When its count of restarts begins; ``None`` where it has none.
        problem: Why nothing is known; empty when something is.
    """

    happenings: tuple[Happening, ...] = ()
    counts_since: datetime | None = None
    problem: str = ""


async def monitored(
    client: "MonitoringClient | None", instance: "Instance", since: datetime | None, now: datetime
) -> Monitored:
    """Alerts of an instance and restarts of its gateway, by the platform's Prometheus; seven days without ``since``."""
    if client is None:
        return Monitored(problem="there is no monitoring here")
    begin = now - _LONGEST if since is None else since
    step_s = max(_STEP_S, math.ceil((now - begin).total_seconds() / _POINTS / _STEP_S) * _STEP_S)
    # On a grid that stays where it is, so that the same alert has the same time whenever it is asked for.
    begin = datetime.fromtimestamp(begin.timestamp() // step_s * step_s, UTC)
    metrics, subject = Metrics(client), instance_subject(instance.id)
    # Over each step: one that fired between two points is none the less seen.
    alerts_of = matching(f'max_over_time(ALERTS{{alertstate="firing",$of}}[{step_s:.0f}s])', [instance.id])
    try:
        alerts = await metrics.range(
            alerts_of, begin=begin, end=now + timedelta(seconds=step_s), step_s=step_s, within_s=_WITHIN_S
        )
        counts = await metrics.range(
            matching(_RESTARTS, [instance.id]), begin=begin, end=now, step_s=step_s, within_s=_WITHIN_S
        )
    except HermesError as error:
        return Monitored(problem=error.message)
    fired = [
        (series.labels.get("alertname", ""), _about(series.labels), [min(at, now) for at, _ in series.points])
        for series in alerts
    ]
    points = counts[0].points if counts else ()
    events = (
        *alert_changes(fired, subject=subject, now=now, step=timedelta(seconds=step_s)),
        *counted_restarts(points, subject=subject),
    )
    return Monitored(events, points[0][0] if points else None)


def _about(labels: "Mapping[str, str]") -> str:
    """The labels that tell an alert from others of its name and instance."""
    same = {"__name__", "alertname", "alertstate", "instance_id", "cell", "machine", "owner", "scope"}
    return ", ".join(f"{name} {value}" for name, value in sorted(labels.items()) if name not in same)


def instance_timeline(
    registry: "Registry", instance: "Instance", since: datetime | None, past: Monitored = Monitored()
) -> tuple[Happening, ...]:
    """Audit, operations, rollouts, restarts, alerts and counts of messages of an instance in one order, newest last.

    Args:
        past: Events by monitoring; its count of restarts replaces health samples of the same time.
    """
    subject = instance_subject(instance.id)
    # Certificates and keys of a machine are audited under its id, which outlives its name: `identity revoke` is there.
    machines = [f"machine/{key}" for key in (instance.machine_name, instance.machine_id) if key]
    entries = [
        entry for key in (subject, *machines) for entry in registry.audit.list(subject=key, since=since, limit=_ENTRIES)
    ]
    operations = {
        operation.id: operation for operation in registry.operations.list(instance_id=instance.id, limit=_ENTRIES)
    }
    begun = registry.operations.steps_of(instance.id, since=since)
    steps = [(operations[operation_id], step) for operation_id, step in begun if operation_id in operations]
    begin = since or datetime.min.replace(tzinfo=UTC)
    restarts = []
    for text in registry.health_samples.list([instance.id], since=begin)[instance.id]:
        with suppress(UnavailableError):  # one that cannot be read tells nothing
            sample = HealthSample.from_json(text)
            restarts.append((sample.at, sample.restarts))
    targets = registry.rollout_targets.of_instance(instance.id)
    if past.counts_since:
        restarts = [restart for restart in restarts if restart[0] < past.counts_since]
    events = timeline(entries, steps, targets, restarts, subject=subject, since=since)
    receipts = registry.messages.received_by(instance.id, since, limit=_ENTRIES)
    messages = message_counts(receipts, subject=subject)
    return tuple(sorted((*events, *messages, *past.happenings), key=lambda event: event.at))


@dataclass(frozen=True)
class InstanceTimeline:
    """Events of one instance, the newest last.

    Attributes:
        problem: Why monitoring knows nothing; empty when it does.
    """

    happenings: tuple[Happening, ...]
    problem: str


@dataclass(frozen=True)
class Timelines:
    """Timelines of one environment's instances.

    Attributes:
        monitoring: The client of the platform's monitoring; ``None`` where the environment has none.
    """

    registry: "Registry"
    monitoring: "MonitoringClient | None"

    async def of(self, instance: "Instance", since: datetime | None) -> InstanceTimeline:
        """The timeline of an instance from registry and monitoring; all of it for ``None``."""
        past = await monitored(self.monitoring, instance, since, self.registry.now())
        return InstanceTimeline(instance_timeline(self.registry, instance, since, past), past.problem)
