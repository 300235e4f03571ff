"""Registries for tests: either database, a key in memory, a clock that a test turns."""

from datetime import UTC, datetime, timedelta

from hermesops.access.key_ring import KeyRing
from hermesops.registry import Registry, open_registry
from hermesops.registry.anchor import Anchor
from hermesops.registry.copies import Copies
from hermesops.registry.registry import migrate_registry

KEYS = KeyRing("k1", {"k1": bytes(range(32))})


class TurnedClock:
    """Stands still until it is turned."""

    def __init__(self) -> None:
        self.moment = datetime(2026, 1, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.moment

    def turn(self, seconds: float) -> None:
        """Let time pass."""
        self.moment += timedelta(seconds=seconds)


def registry_at(
    url: str,
    *,
    clock: TurnedClock | None = None,
    keys: KeyRing = KEYS,
    anchor: Anchor | None = None,
    copies: Copies | None = None,
) -> Registry:
    """Open (and make) the registry at ``url``."""
    migrate_registry(url, anchor=anchor, copies=copies)
    return open_registry(
        url,
        environment="local",
        actor="tester",
        sealer=lambda _new: keys,
        clock=clock,
        anchor=anchor,
        copies=copies,
    )
