"""Releases that instances were observed to run are kept alike in both databases, each with when it began."""

from datetime import timedelta

import pytest

from hermesops.model.ids import instance_subject
from hermesops.model.operation import LeaseLostError
from hermesops.model.rollout.release import RecordedRelease
from hermesops.store.registry import Registry
from tests.support.real.stores.registries import TurnedClock, placed
from tests.support.rollouts.rows import NEW, OLD


def test_a_release_has_the_time_of_its_first_observation(registry: Registry, clock: TurnedClock) -> None:
    ada, began = placed(registry), clock.timestamp
    registry.rollout_targets.record_release(ada.id, OLD)
    clock.turn(60)
    registry.rollout_targets.record_release(ada.id, OLD)
    registry.rollout_targets.record_releases({ada.id: OLD})
    assert registry.rollout_targets.recorded_releases() == {ada.id: RecordedRelease(OLD, began)}
    registry.rollout_targets.record_release(ada.id, NEW)
    later = RecordedRelease(NEW, began + timedelta(seconds=60))
    assert registry.rollout_targets.recorded_releases() == {ada.id: later}


def test_whoever_lost_the_lease_records_no_release(registry: Registry, clock: TurnedClock) -> None:
    ada = placed(registry)
    lease = registry.leases.take(instance_subject(ada.id), "one")
    clock.turn(60)
    registry.leases.take(instance_subject(ada.id), "another")
    with pytest.raises(LeaseLostError, match="is lost"):
        registry.rollout_targets.record_release(ada.id, NEW, lease=lease)
    assert registry.rollout_targets.recorded_releases() == {}
