"""Whatever an agent answers the relay: it costs that request, and whoever asks another agent waits no longer."""

import asyncio
import queue
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from hermesops.agents.relay import routes
from hermesops.base.waiting import pause
from tests.support.hostile.agents.hostile_moods import MOODS, Write
from tests.support.hostile.http_service import hostile_service
from tests.support.real.relay import TOKEN, Caller, RelayWorld, kind_agent, relaying

LIMIT_S = 1.0
LONG_S = 20.0
"""Seconds of a turn in which others are held up, if they are: many times what they need."""

ENDS_S = 60.0
"""Seconds after which a request has not ended: many times what it may take on a busy computer."""

MOST = 72 << 20
"""Bytes that may be taken of one answer: the 64 MiB of a turn, and what buffers hold."""

STATUSES = {502, 503, 504}
HEADERS = {
    "content-type",
    "x-content-type-options",
    "x-hermes-session-id",
    "x-relay-from",
    "transfer-encoding",
    "content-length",
    "connection",
    "cache-control",
    "retry-after",
}
COSTLY = (
    "drips_head",
    "drips_chunks",
    "endless_body",
    "endless_chunks",
    "endless_events",
    "many_headers",
    "many_interim_answers",
    "tiny_chunks",
)


async def _tiny_chunks(write: Write) -> None:
    await write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(1000):
        await write(b"1\r\nx\r\n" * 10_000)


def _limit(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    limited = tuple(replace(route, total_s=seconds, silence_s=seconds) for route in routes.ROUTES)
    monkeypatch.setattr("hermesops.agents.relay.routes.ROUTES", limited)


@pytest.fixture(autouse=True)
def _short_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    _limit(monkeypatch, LIMIT_S)
    monkeypatch.setitem(MOODS, "tiny_chunks", _tiny_chunks)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[RelayWorld]:
    async with relaying(tmp_path) as relay_world:
        yield relay_world


@pytest.mark.turns(60)
@pytest.mark.parametrize("line", ["GET /agents/ada/health", "POST /agents/ada/v1/chat/completions"])
@pytest.mark.parametrize("mood", [*MOODS, "tiny_chunks"])
async def test_every_answer_ends_and_is_the_agents_marked_as_that_or_the_relays(
    world: RelayWorld, mood: str, line: str
) -> None:
    caller = world.admit()
    async with hostile_service(mood) as service:
        world.agent("ada", service.url)
        response = await world.ask(caller, line, body=b"{}" if line.startswith("POST") else b"", within_s=ENDS_S)
        assert service.taken < MOST
    assert set(response.headers) <= HEADERS
    assert TOKEN not in str(response)
    if response.headers["x-relay-from"] == "relay":
        assert (response.status in STATUSES, response.whole, bool(response.code)) == (True, True, True)
    else:
        assert response.headers["content-type"] in {"application/json", "text/event-stream", "text/plain"}


@contextmanager
def _hostile_services(moods: Sequence[str]) -> Iterator[list[str]]:
    """Their URLs; they run in a thread and a loop of their own, so that what they do holds up nobody here."""
    urls: queue.Queue[list[str]] = queue.Queue()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        async with AsyncExitStack() as stack:
            services = [await stack.enter_async_context(hostile_service(mood)) for mood in moods]
            urls.put([service.url for service in services])
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    try:
        yield urls.get(timeout=ENDS_S)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(ENDS_S)
        loop.close()


async def test_an_agent_that_misbehaves_delays_nobody_elses_messages(
    world: RelayWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    _limit(monkeypatch, LONG_S)
    caller = world.admit()
    with _hostile_services(COSTLY) as urls:
        async with kind_agent() as kind:
            world.agent("bob", kind.url)
            for number, url in enumerate(urls):
                world.agent(f"ada{number}", url)
            alone = await _times(world, caller, 10)
            hostile = [
                asyncio.create_task(_over_and_over(world, caller, f"ada{number}"))
                for number in range(len(urls))
                for _ in range(2)
            ]
            await pause(1)
            beside = await _times(world, caller, 10)
            ended = [task for task in hostile if task.done()]
            for task in hostile:
                task.cancel()
            await asyncio.gather(*hostile, return_exceptions=True)
    assert not ended
    print(f"alone {max(alone):.3f} s, beside {len(COSTLY)} that misbehave {max(beside):.3f} s")  # noqa: T201 - figures
    # Relay, callers and those who send without end share the computer; what counts is that nobody waits for their end.
    assert max(beside) < LONG_S / 2, (alone, beside)


async def _times(world: RelayWorld, caller: Caller, count: int) -> list[float]:
    """Seconds that a well-behaved agent's answers take, one after the other."""
    taken = []
    for _ in range(count):
        began = time.monotonic()
        response = await world.ask(caller, "POST /agents/bob/v1/chat/completions", body=b"{}", within_s=ENDS_S)
        taken.append(time.monotonic() - began)
        assert (response.status, response.headers["x-relay-from"], response.whole) == (200, "agent", True)
    return sorted(taken)


async def _over_and_over(world: RelayWorld, caller: Caller, agent: str) -> None:
    while True:
        with suppress(OSError):
            await world.ask(caller, f"POST /agents/{agent}/v1/chat/completions", body=b"{}", within_s=ENDS_S)
