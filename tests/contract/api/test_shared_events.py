"""Two processes of the API that share events of turns through a real Redis, which is emptied, killed and lied to."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from hermesops.base.waiting import Pending, until
from hermesops.errors import RefusedError
from hermesops.users.chat import carrier, service, shared_events
from hermesops.users.chat.shared_events import CHANNEL, SharedEventLog, stream_of
from tests.support.real.stores.redis_server import RedisServer, redis_server
from tests.support.real.stores.registries import KEYS, TurnedClock
from tests.support.users.api import Client, Event, Process, UsersApi, users_api

WORDS = "my grandmother's recipe"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look again at once; but never so soon that looking would do for hearing."""
    monkeypatch.setattr(carrier, "_AGAIN_S", 0.02)
    monkeypatch.setattr(carrier, "_LOOK_S", 0.2)
    monkeypatch.setattr(shared_events, "_AGAIN_S", 0.05)
    monkeypatch.setattr(service, "_LOOK_S", 20.0)


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with redis_server(tmp_path) as server:
        yield server


@pytest.fixture
async def api(tmp_path: Path, redis: RedisServer) -> AsyncIterator[UsersApi]:
    url = f"sqlite:///{tmp_path}/registry.db"
    async with users_api(tmp_path, url, TurnedClock(), lambda: SharedEventLog(redis.client(), KEYS)) as api:
        api.agent.says = False
        yield api


@pytest.fixture
async def ada(api: UsersApi) -> AsyncIterator[Client]:
    async with api.client(process=api.processes[0]) as client:
        yield client


@pytest.fixture
async def other(api: UsersApi) -> AsyncIterator[Process]:
    async with api.started() as process:
        yield process


async def write(api: UsersApi, *pieces: str) -> None:
    """Let the agent write pieces, each of which the API passes on by itself."""

    async def check() -> bool | Pending[bool]:
        return bool(api.agent.runs) or Pending("not yet")

    await until(check, what="the agent has a run", timeout_s=20, every_s=0.01)
    for piece in pieces:
        api.agent.push(api.agent.run, "message.delta", delta=piece.ljust(carrier._GATHERED + 1))


async def copied(redis: RedisServer, turn: str, count: int) -> None:
    """Wait until Redis has so many events of a turn."""

    async def check() -> bool | Pending[bool]:
        return await client.xlen(stream_of(turn)) >= count or Pending("not yet")

    async with redis.client() as client:
        await until(check, what=f"Redis has {count} events", timeout_s=20, every_s=0.01)


def text_of(events: list[Event]) -> list[str]:
    return [event.data["text"].strip() for event in events if event.kind == "delta"]


async def test_another_process_reads_an_answer_as_it_comes_and_from_any_place(
    api: UsersApi, redis: RedisServer, ada: Client, other: Process
) -> None:
    async with ada.send(WORDS) as sending, api.client(process=other) as elsewhere:
        turn = (await anext(sending)).data["id"]
        async with asyncio.timeout(15), elsewhere.resume(turn) as reading:
            assert (await anext(reading)).kind == "turn"
            for number in range(4):  # each comes before the next one is written
                await write(api, f"{number} {WORDS}")
                assert text_of([await anext(reading)]) == [f"{number} {WORDS}"]
            await copied(redis, turn, 4)
            for position in range(4):
                async with elsewhere.resume(turn, f"{turn}:{position}") as resumed:
                    events = [await anext(resumed) for _ in range(5 - position)]
                assert text_of(events) == [f"{number} {WORDS}" for number in range(position, 4)]
            api.agent.end(api.agent.run, "the whole answer")
            [last] = [event async for event in reading]
            assert (last.kind, last.data) == ("done", {"text": "the whole answer"})


async def test_redis_holds_no_word_of_theirs_and_forgets_soon(api: UsersApi, redis: RedisServer, ada: Client) -> None:
    async with ada.send(WORDS) as sending:
        turn = (await anext(sending)).data["id"]
        await write(api, WORDS)
        await copied(redis, turn, 1)
        async with redis.client() as client:
            assert 3600 < await client.ttl(stream_of(turn)) <= shared_events.LIFE_S
            api.agent.end(api.agent.run, WORDS)
            await copied(redis, turn, 2)
            assert 0 < await client.ttl(stream_of(turn)) <= 600
            assert [key.decode() for key in await client.keys("*")] == [stream_of(turn)]
            rows = await client.xrange(stream_of(turn))
    assert len(rows) == 2
    assert "recipe" not in str(rows)


async def test_an_answer_has_no_hole_when_redis_was_emptied(
    api: UsersApi, redis: RedisServer, ada: Client, other: Process
) -> None:
    async with ada.send("go") as sending, api.client(process=other) as elsewhere:
        turn = (await anext(sending)).data["id"]
        async with asyncio.timeout(30), elsewhere.resume(turn) as reading:
            await anext(reading)
            await write(api, "first")
            assert text_of([await anext(reading)]) == ["first"]
            redis.kill()
            await write(api, "second", "third")
            assert text_of([await anext(sending) for _ in range(3)]) == ["first", "second", "third"]
            await _dropped(api.processes[0])
            redis.start()
            await _heard(redis)
            await write(api, "later")
            assert text_of([await anext(sending)]) == ["later"]
            await copied(redis, turn, 1)
            api.agent.end(api.agent.run, "whole")
            events = [event async for event in reading]
        assert [(event.kind, event.data) for event in events] == [("done", {"text": "whole"})]


async def test_a_hole_is_known_wherever_its_reader_resumes(
    api: UsersApi, redis: RedisServer, ada: Client, other: Process
) -> None:
    async with ada.send("go") as sending, api.client(process=other) as elsewhere:
        turn = (await anext(sending)).data["id"]
        await write(api, "first", "second")
        await copied(redis, turn, 2)
        async with redis.client() as client:
            await client.delete(stream_of(turn))
        api.agent.push(api.agent.run, "tool.started", tool="terminal", preview="ls")
        async with asyncio.timeout(30), elsewhere.resume(turn, f"{turn}:1") as resumed:
            await anext(resumed)
            tool = await anext(resumed)
        assert tool.kind == "tool"
        for client in (ada, elsewhere):
            async with asyncio.timeout(30), client.resume(turn, tool.id) as resumed:
                await anext(resumed)
                await write(api, "third")
                api.agent.push(api.agent.run, "tool.completed", tool="terminal")
                later = await anext(resumed)
                assert later.kind == "tool"  # and no piece behind the missing one
                assert int(later.id.partition(":")[2]) > int(tool.id.partition(":")[2])
        api.agent.end(api.agent.run, "whole")
        async with asyncio.timeout(30), ada.resume(turn, later.id) as resumed:
            *before, end = [event async for event in resumed]
        assert "delta" not in {event.kind for event in before}
        assert (end.kind, end.data) == ("done", {"text": "whole"})


async def _dropped(process: Process) -> None:
    """Wait until a process has nothing left for Redis."""
    log: Any = process.chat._events

    async def check() -> bool | Pending[bool]:
        return not log._outgoing or Pending("not yet")

    await until(check, what="nothing waits for Redis", timeout_s=20, every_s=0.01)


async def _heard(redis: RedisServer) -> None:
    """Wait until both processes hear the bell."""

    async def check() -> bool | Pending[bool]:
        [(_, count)] = await client.pubsub_numsub(CHANNEL)
        return bool(count >= 2) or Pending("not yet")

    async with redis.client() as client:
        await until(check, what="both processes hear the bell", timeout_s=20, every_s=0.01)


async def test_without_redis_the_end_comes_whole(
    api: UsersApi, redis: RedisServer, ada: Client, other: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis.kill()
    monkeypatch.setattr(service, "_LOOK_S", 0.1)
    async with ada.send("go") as sending, api.client(process=other) as elsewhere:
        turn = (await anext(sending)).data["id"]
        await write(api, "a piece")
        api.agent.end(api.agent.run, "whole")
        async with asyncio.timeout(30), elsewhere.resume(turn) as reading:
            events = [event async for event in reading]
        assert [(event.kind, event.data) for event in events[1:]] == [("done", {"text": "whole"})]
        assert [event.kind async for event in sending] == ["delta", "done"]


async def test_what_others_write_into_redis_is_no_event(
    api: UsersApi, redis: RedisServer, ada: Client, other: Process
) -> None:
    async with ada.send("go") as sending, api.client(process=other) as elsewhere, redis.client() as client:
        turn = (await anext(sending)).data["id"]
        await write(api, "one")
        await copied(redis, turn, 1)
        [(_, fields)] = await client.xrange(stream_of(turn))
        await client.xadd(stream_of(turn), fields, id="2-0")  # a copy at another place
        await client.xadd(stream_of(turn), {"event": '["delta", {"text": "forged"}]'}, id="3-0")
        await client.xadd(stream_of(turn), {"other": "x" * 100_000}, id="4-0")
        for bell in (turn, "x" * 100_000, "\x00", ""):
            await client.publish(CHANNEL, bell)
        async with asyncio.timeout(30), elsewhere.resume(turn) as reading:
            assert [(await anext(reading)).kind for _ in range(2)] == ["turn", "delta"]
            api.agent.end(api.agent.run, "whole")
            events = [event async for event in reading]
        assert [(event.kind, event.data) for event in events] == [("done", {"text": "whole"})]


async def test_events_that_cannot_be_sealed_end_no_sweep(
    api: UsersApi, ada: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> str:
        raise RefusedError("the key is gone")

    monkeypatch.setattr(SharedEventLog, "_sealed", refused)
    async with asyncio.timeout(30), ada.send("go") as sending:
        await anext(sending)
        await write(api, "one")
        await _dropped(api.processes[0])
        api.agent.end(api.agent.run, "whole")
        assert [event.kind async for event in sending] == ["delta", "done"]
    assert not api.processes[0].sweeping.done()
