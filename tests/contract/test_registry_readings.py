"""What nodes said in figures is kept alike in both databases, for some days."""

from datetime import timedelta

from hermesops.registry import Registry
from tests.support.registries import TurnedClock, placed


def test_readings_come_back_in_their_order(registry: Registry) -> None:
    ada, bob = placed(registry, "ada"), placed(registry, "bob")
    now = registry.now()
    registry.add_health_samples({ada.id: (now, "second"), bob.id: (now, "bob's")})
    registry.add_health_samples({ada.id: (now - timedelta(hours=1), "first")})
    registry.add_health_samples({ada.id: (now, "said again")})
    since = now - timedelta(hours=2)
    assert registry.list_health_samples([ada.id], since=since) == {ada.id: ("first", "second")}
    assert registry.list_health_samples([ada.id, bob.id], since=now) == {ada.id: ("second",), bob.id: ("bob's",)}
    assert registry.list_health_samples([bob.id], since=now + timedelta(seconds=1)) == {bob.id: ()}


def test_old_ones_are_forgotten(registry: Registry, clock: TurnedClock) -> None:
    ada = placed(registry, "ada")
    then = registry.now()
    registry.add_health_samples({ada.id: (then, "old")})
    clock.turn(8 * 24 * 3600)
    registry.add_health_samples({ada.id: (registry.now(), "new")})
    assert registry.list_health_samples([ada.id], since=then) == {ada.id: ("new",)}
