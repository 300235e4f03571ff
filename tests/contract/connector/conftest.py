"""The database of a connector, and a user whose agent runs."""

from collections.abc import Iterator

import pytest

from hermesops.model.fleet.instance import Instance
from hermesops.store.registry import Registry
from hermesops.store.registry.database import Database
from tests.support.real.stores.registries import TurnedClock, placed


@pytest.fixture
def database(registry: Registry, registry_url: str, clock: TurnedClock) -> Iterator[Database]:
    assert registry.actor
    database = Database(registry_url, clock=clock)
    yield database
    database.close()


@pytest.fixture
def ada(registry: Registry) -> Instance:
    return placed(registry)
