"""Two processes with a bell through a real Redis: the connector routes at once what another process stored."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hermesops.base.bell import Bell
from hermesops.base.waiting import Pending, cancel, until
from hermesops.model.fleet.instance import Instance
from hermesops.store.registry.database import Database
from hermesops.users.messaging.inbound import router, shared_bell
from hermesops.users.messaging.inbound.routing import CONNECTED
from hermesops.users.messaging.inbound.shared_bell import CHANNEL, SharedBell
from tests.support.real.stores.redis_server import RedisServer, redis_server
from tests.support.users.messaging import dialled, messaging

ADA = 111
_NEVER_S = 3600.0
"""Longer than any test: a wait that ends was rung."""


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with redis_server(tmp_path) as server:
        yield server


@asynccontextmanager
async def both_ends(redis: RedisServer, bell: Bell) -> AsyncIterator[SharedBell]:
    """The end of the users' API, while the connector's rings a bell; each has a connection of its own."""
    async with redis.client() as ours, redis.client() as theirs, redis.client() as looking:
        api = SharedBell(ours)
        works = [asyncio.ensure_future(each) for each in (api.publish(), SharedBell(theirs).listen(bell))]

        async def listens() -> bool | Pending[bool]:
            [(_, count)] = await looking.pubsub_numsub(CHANNEL)
            return count == 1 or Pending(str(count))

        await until(listens, what="the connector to listen", timeout_s=20, every_s=0.02)
        try:
            yield api
        finally:
            await cancel(*works)


async def test_a_message_that_another_process_stored_is_routed_at_the_ring(
    database: Database, ada: Instance, redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(router, "_LOOK_S", _NEVER_S)  # looking would do for hearing
    async with messaging(database) as world, world.running(), dialled(world, ada) as gateway:
        world.link(ada, ADA)
        await world.hears(ADA, CONNECTED)
        async with both_ends(redis, world.heard) as api:
            for number in range(3):
                world.say_elsewhere(ADA, f"message {number}")
                api.ring()
                frame = await gateway.next("inbound")
                assert frame["event"]["text"] == f"message {number}"
                await gateway.send("tg.111", "ok", f"r{number}", reply_to=frame["event"]["message_id"])


async def test_rings_go_on_once_redis_is_back_and_cost_nothing_while_it_is_away(
    redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_bell, "_AGAIN_S", 0.05)
    bell = Bell()
    async with both_ends(redis, bell) as api:
        redis.kill()
        api.ring()  # nobody waits for it, and it is lost
        redis.start()
        async with asyncio.timeout(20):
            await bell.wait(_NEVER_S)  # whatever came while nobody listened is looked for
            await heard(api, bell)


async def heard(api: SharedBell, bell: Bell) -> None:
    """Ring until the other process hears it: its connection may be new."""
    is_heard = asyncio.ensure_future(bell.wait(_NEVER_S))
    while not is_heard.done():
        api.ring()
        await asyncio.wait({is_heard}, timeout=0.1)


async def test_whatever_somebody_else_publishes_is_a_ring_and_nothing_else(redis: RedisServer) -> None:
    bell = Bell()
    async with both_ends(redis, bell), redis.client() as hostile:
        async with asyncio.timeout(20):
            await bell.wait(_NEVER_S)  # of the beginning
            await hostile.publish(CHANNEL, b"x" * 100_000)
            await bell.wait(_NEVER_S)
