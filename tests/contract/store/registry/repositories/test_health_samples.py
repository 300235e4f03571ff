"""What nodes said in figures is kept alike in both databases, for some days."""

from datetime import timedelta

from hermesops.store.registry import Registry
from tests.support.real.stores.registries import TurnedClock, placed


def test_readings_come_back_in_their_order(registry: Registry) -> None:
    ada, bob = placed(registry, "ada"), placed(registry, "bob")
    now = registry.now()
    registry.health_samples.add({ada.id: (now, "second"), bob.id: (now, "bob's")})
    registry.health_samples.add({ada.id: (now - timedelta(hours=1), "first")})
    registry.health_samples.add({ada.id: (now, "said again")})
    since = now - timedelta(hours=2)
    assert registry.health_samples.list([ada.id], since=since) == {ada.id: ("first", "second")}
    assert registry.health_samples.list([ada.id, bob.id], since=now) == {ada.id: ("second",), bob.id: ("bob's",)}
    assert registry.health_samples.list([bob.id], since=now + timedelta(seconds=1)) == {bob.id: ()}
    assert registry.health_samples.list_all(since=since) == {ada.id: ("first", "second"), bob.id: ("bob's",)}
    assert registry.health_samples.list_all(since=now + timedelta(seconds=1)) == {}


def test_old_ones_are_forgotten(registry: Registry, clock: TurnedClock) -> None:
    ada = placed(registry, "ada")
    then = registry.now()
    registry.health_samples.add({ada.id: (then, "old")})
    clock.turn(8 * 24 * 3600)
    registry.health_samples.add({ada.id: (registry.now(), "new")})
    assert registry.health_samples.list([ada.id], since=then) == {ada.id: ("new",)}
