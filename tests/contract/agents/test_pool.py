"""Claims, shrinking, refilling and sudden deaths, all at once: no machine is anybody's twice, and none is lost.

On SQLite and on PostgreSQL; the registry, leases, the loop and the pool are real, the cloud is in memory.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermesops.store.registry import Registry
from tests.support.crash.death import Death, KilledError
from tests.support.real.stores.registries import TurnedClock, registry_at
from tests.support.worlds.pool import Cloud, Computer, Site, come, fill, opened, problems, target

_NUMBERS = count()


@dataclass(frozen=True)
class Deed:
    """What one computer does: a newcomer comes, or the pool is brought to a size."""

    size: int | None
    image: int
    dies_at: int


DEEDS = st.builds(
    Deed,
    size=st.none() | st.integers(0, 3),
    image=st.integers(0, 1),
    dies_at=st.just(0) | st.integers(1, 30),
)
ROUNDS = st.lists(st.lists(DEEDS, min_size=1, max_size=3), min_size=1, max_size=2)


async def play(registry: Registry, clock: TurnedClock, rounds: Sequence[Sequence[Deed]], seed: int) -> list[str]:
    """Everybody of a round acts at once; then the leases of the dead run out. At the end somebody tidies up."""
    opened(registry)
    cloud = Cloud(registry, random.Random(seed))  # noqa: S311 - a test's, and repeatable
    people = count()

    async def act(deed: Deed) -> None:
        site = Site(cloud, Computer(registry, Death(deed.dies_at)))
        try:
            if deed.size is None:
                await come(site, f"u{next(people)}", target(0, deed.image))
            else:
                await fill(site, target(deed.size, deed.image))
        except KilledError:
            return

    for deeds in ([Deed(3, 0, 0)], *rounds):
        await asyncio.gather(*map(act, deeds))
        clock.turn(60)
    for _ in range(2):  # the first one may find an operation of another intent, and ends that
        outcome = await fill(Site(cloud, Computer(registry)), target(2, 1))
    return [*problems(cloud, 2, 1), *([] if "is ready" in outcome else [outcome])]


@pytest.mark.turns(7)
@given(rounds=ROUNDS, seed=st.integers(0, 1 << 16))
@settings(
    max_examples=6,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_whatever_happens_at_once_no_machine_is_given_twice_or_lost(
    request: pytest.FixtureRequest, registry_url: str, rounds: list[list[Deed]], seed: int
) -> None:
    url = registry_url
    if url.startswith("sqlite"):
        url = url.replace("registry.db", f"registry-{next(_NUMBERS)}.db")
    else:
        url = request.getfixturevalue("postgresql_server").new_registry()
    clock = TurnedClock()
    registry = registry_at(url, clock=clock)
    try:
        assert asyncio.run(play(registry, clock, rounds, seed)) == []
    finally:
        registry.close()


def test_a_pool_that_dies_at_every_change_is_filled_by_the_next(registry_url: str) -> None:
    """One life a change: each dies there, and the next one goes on until nothing is left to do."""
    clock = TurnedClock()
    registry = registry_at(registry_url, clock=clock)
    rounds = [[Deed(2, 1, at)] for at in range(2, 40, 6)]
    assert asyncio.run(play(registry, clock, rounds, 1)) == []
    registry.close()


def test_a_machine_that_a_run_is_about_to_destroy_is_nobodys_to_take(registry_url: str) -> None:
    registry = registry_at(registry_url, clock=TurnedClock())
    opened(registry)
    cloud = Cloud(registry, random.Random(1))  # noqa: S311 - a test's, and repeatable

    async def late() -> None:
        await come(Site(cloud, Computer(registry)), "ada", target(1))

    async def shrink_while_somebody_comes() -> None:
        await fill(Site(cloud, Computer(registry)), target(1))
        cloud.meanwhile = late
        await fill(Site(cloud, Computer(registry)), target(0))

    asyncio.run(shrink_while_somebody_comes())
    assert (registry.instances.list(), problems(cloud, 0, 0)) == ((), [])
    registry.close()
