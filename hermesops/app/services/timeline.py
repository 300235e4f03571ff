"""What happened to one instance, from what the registry has recorded; nobody is asked."""

from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hermesops.drift.changes import Happening, timeline
from hermesops.errors import UnavailableError
from hermesops.health.samples import HealthSample
from hermesops.model.ids import instance_subject

if TYPE_CHECKING:
    from hermesops.model.instance import Instance
    from hermesops.registry import Registry

_ENTRIES = 10_000
"""Newest audit entries of a subject, and newest operations, that are read."""


def instance_timeline(registry: "Registry", instance: "Instance", since: datetime | None) -> tuple[Happening, ...]:
    """Audit, operations, rollouts and restarts of an instance in one order, the newest last."""
    subject = instance_subject(instance.id)
    entries = [
        entry
        for one in (subject, f"machine/{instance.machine_name}")
        for entry in registry.audit.list(subject=one, since=since, limit=_ENTRIES)
    ]
    operations = {one.id: one for one in registry.operations.list(instance_id=instance.id, limit=_ENTRIES)}
    begun = registry.operations.steps_of(instance.id, since=since)
    steps = [(operations[one], step) for one, step in begun if one in operations]
    begin = since or datetime.min.replace(tzinfo=UTC)
    restarts = []
    for text in registry.health_samples.list([instance.id], since=begin)[instance.id]:
        with suppress(UnavailableError):  # one that cannot be read tells nothing
            sample = HealthSample.from_json(text)
            restarts.append((sample.at, sample.restarts))
    targets = registry.rollout_targets.of_instance(instance.id)
    return timeline(entries, steps, targets, restarts, subject=subject, since=since)
