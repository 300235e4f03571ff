"""Releases, freezes and policies of instances are kept alike in both databases."""

from datetime import UTC, datetime, time, timedelta

import pytest

from hermesops.errors import RefusedError, UsageError
from hermesops.model.fleet.instance import InstancePolicy, QuietHours
from hermesops.model.rollout.release import ReleaseId
from hermesops.store.registry import Registry
from tests.support.real.stores.registries import TurnedClock, placed

OLD, NEW = ReleaseId("0.18.2-0123456789ab"), ReleaseId("0.19.0-ba9876543210")


def test_a_release_is_known_once_with_its_lock(registry: Registry) -> None:
    first = registry.releases.add(OLD, digest="a" * 64, agent_version="0.18.2")
    assert registry.releases.add(OLD, digest="a" * 64, agent_version="0.18.2") == first
    with pytest.raises(RefusedError, match="another lock"):
        registry.releases.add(OLD, digest="b" * 64, agent_version="0.18.2")
    assert [entry.action for entry in registry.audit.list(subject=f"release/{OLD}")] == ["release_known"]


def test_a_revoked_release_says_why_for_good(registry: Registry) -> None:
    registry.releases.add(OLD, digest="a" * 64, agent_version="0.18.2")
    revoked = registry.releases.revoke(OLD, why="loses messages")
    assert revoked.revoked_at is not None
    assert registry.releases.revoke(OLD, why="another reason") == revoked
    with pytest.raises(UsageError, match="no release"):
        registry.releases.revoke(NEW, why="unknown")


def test_a_freeze_holds_from_its_beginning_until_its_end(registry: Registry, clock: TurnedClock) -> None:
    now = registry.now()
    later = registry.freezes.set(begins_at=now + timedelta(hours=2), ends_at=now + timedelta(hours=3), reason="fair")
    at_once = registry.freezes.set(begins_at=None, ends_at=None, reason="incident")
    assert [(freeze.id, freeze.holds_at(registry.now())) for freeze in registry.freezes.list()] == [
        (at_once.id, True),
        (later.id, False),
    ]
    with pytest.raises(UsageError, match="2 freezes"):
        registry.freezes.lift("", why="which?")
    clock.turn(2 * 3600)
    assert all(freeze.holds_at(registry.now()) for freeze in registry.freezes.list())
    clock.turn(3600)
    assert [freeze.id for freeze in registry.freezes.list()] == [at_once.id]
    lifted = registry.freezes.lift("", why="over")
    assert registry.freezes.lift(at_once.id[:5], why="again") == lifted
    with pytest.raises(UsageError, match="no freeze"):
        registry.freezes.lift("", why="over")
    assert registry.freezes.list() == ()
    assert len(registry.freezes.list(past=True)) == 2


def test_a_freeze_that_holds_nothing_up_is_refused(registry: Registry) -> None:
    now = registry.now()
    with pytest.raises(UsageError, match="has no effect"):
        registry.freezes.set(begins_at=None, ends_at=now - timedelta(seconds=1), reason="late")
    with pytest.raises(UsageError, match="no freeze 'beef'"):
        registry.freezes.lift("beef", why="none")


def test_a_policy_is_as_it_was_written(registry: Registry) -> None:
    instance = placed(registry)
    assert registry.policies.get(instance.id) == InstancePolicy()
    wanted = InstancePolicy(opted_in=True, quiet=QuietHours(time(22), time(7, 30), "Europe/Helsinki"))
    for _ in range(2):
        registry.policies.set(instance.id, wanted, why="asked for")
    assert registry.policies.list() == {instance.id: wanted}
    written = [logged for logged in registry.audit.list(subject=f"instance/{instance.id}") if "policy" in logged.action]
    assert len(written) == 1
    registry.policies.set(instance.id, InstancePolicy(protected=True))
    assert registry.policies.get(instance.id) == InstancePolicy(protected=True)


@pytest.mark.parametrize(("hour", "quiet"), [(19, False), (20, True), (4, True), (5, False)])
def test_quiet_hours_are_the_users_own_and_may_span_midnight(hour: int, quiet: bool) -> None:  # noqa: FBT001 - a case
    hours = QuietHours(time(22), time(7), "Europe/Berlin")
    assert hours.hold_at(datetime(2026, 7, 1, hour, tzinfo=UTC)) is quiet
