"""The users' API: how far behind the agent an answer is, how many streams it holds, and webhooks that are durable.

The API, the relay over TLS, the agent and its caller are one process but for the idle streams, which the API holds in a
process of its own: figures of time are of all of them together.
"""

import asyncio
import json
import multiprocessing
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from http import HTTPStatus
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hermesops.api.serve import raise_open_files
from hermesops.base.network.http import own_client
from hermesops.base.waiting import Pending, pause, until
from hermesops.serving import limits
from hermesops.store.registry.repositories.billing.events import receive
from tests.bench.figures import Board, report
from tests.support.real.stores import postgresql
from tests.support.real.stores.registries import TurnedClock
from tests.support.users.api import STRIPE, UsersApi, served, users_api
from tests.support.users.calling import CallingAgent, calling_agent, message
from tests.support.users.scripted_agent import Run, ScriptedAgent

TURNS = 60
CALLS = 200
STREAMS = 5_000
WEBHOOKS, A_SECOND = 2_000, 200

_OPEN_AT_ONCE = 50
_ALONE = 300
_WEBHOOK = "/webhooks/stripe/hermes"


def measure(board: Board, folder: Path) -> None:
    """Add the figures."""
    _take_one_user_for_all()
    asyncio.run(_deltas(board, folder / "deltas"))
    asyncio.run(_callers(board, folder / "callers", "SQLite", ""))
    _idle_streams(board, folder / "streams")
    asyncio.run(_webhooks(board, folder / "webhooks", "SQLite, each synced to the disk", ""))
    if postgresql.programs() is None:
        report("    left out: there is no PostgreSQL on this computer")
        return
    with postgresql.running(synced=True) as server:
        asyncio.run(_callers(board, folder / "callers-pg", "PostgreSQL", server.new_registry()))
        store = "PostgreSQL, each synced to the disk"
        asyncio.run(_webhooks(board, folder / "webhooks-pg", store, server.new_registry()))


@asynccontextmanager
async def _api(folder: Path, url: str = "") -> AsyncIterator[UsersApi]:
    folder.mkdir(parents=True)  # noqa: ASYNC240 - before anything runs
    async with users_api(folder, url or f"sqlite:///{folder}/registry.db", TurnedClock()) as api:
        api.agent.says = False
        yield api


async def _deltas(board: Board, folder: Path) -> None:
    """How long after the agent wrote it the first piece of an answer is read: by the API, and from the agent."""
    ours, sent = [], []
    async with _api(folder) as api:
        theirs = await _deltas_of_the_agent()
        for number in range(TURNS):
            async with api.client() as client:
                began = time.perf_counter()
                async with client.send(f"message {number}", conversation=f"c{number}") as events:
                    await anext(events)
                    run = await _run_of(api, f"message {number}")
                    sent.append(time.perf_counter() - began)
                    wrote = time.perf_counter()
                    api.agent.push(run, "message.delta", delta="first")
                    await anext(events)
                    ours.append(time.perf_counter() - wrote)
                    api.agent.end(run, "first")
                    async for _ in events:
                        pass
    board.add(
        "the first piece of an answer, behind the agent's writing it",
        _spread(ours),
        target="<= 300 ms",
        against=f"read from the agent itself in this run: {_spread(theirs)}; pieces are gathered for 40 ms, on purpose",
    )
    board.add("a message, from its request until the agent runs it", _spread(sent))


async def _callers(board: Board, folder: Path, store: str, url: str) -> None:
    """How long after the agent wrote it the first piece of a task's artifact is read by an agent that calls it."""
    took: dict[str, list[float]] = {"once the task runs": [], "at once": []}
    async with _api(folder, url) as api, api.client() as ada, calling_agent(api, ada) as caller:
        for number in range(CALLS):
            for kind, seconds in took.items():
                seconds.append(
                    await _first_piece(api, caller, f"{number} {kind}, a message", at_once=kind == "at once")
                )
    for kind, seconds in took.items():
        other = next(each for each in took if each != kind)
        board.add(
            f"the first piece of a task that another agent began, spoken {kind}, {store}, {CALLS} tasks",
            _spread(seconds),
            target="<= 500 ms",
            against=f"spoken {other}, in this run: {_spread(took[other])}; pieces are gathered for 40 ms",
        )


async def _first_piece(api: UsersApi, caller: CallingAgent, text: str, *, at_once: bool) -> float:
    """Seconds from the agent's first word to the caller's first piece.

    Args:
        at_once: Whether the agent speaks as soon as it has the task, before the caller has its first update.
    """
    async with caller.stream("SendStreamingMessage", {"message": message(text)}) as updates:
        if not at_once:
            await anext(updates)
            await pause(0.3)
        run = await _run_of(api, text)
        wrote = time.perf_counter()
        api.agent.push(run, "message.delta", delta="first")
        async for update in updates:
            if "artifactUpdate" in update:
                break
        seconds = time.perf_counter() - wrote
        api.agent.end(run, "first")
        async for _ in updates:
            pass
    return seconds


async def _deltas_of_the_agent() -> list[float]:
    """The same from an agent, without the API, the relay and a row between."""
    agent, took = ScriptedAgent(says=False), []
    async with served(agent.app()) as url, own_client(base_url=url, timeout=60) as http:
        for number in range(TURNS):
            body = {"input": f"message {number}", "session_id": f"s{number}"}
            run = (await http.post("/v1/runs", json=body)).json()["run_id"]
            async with http.stream("GET", f"/v1/runs/{run}/events") as response:
                lines = response.aiter_lines()
                wrote = time.perf_counter()
                agent.push(agent.run, "message.delta", delta="first")
                await anext(lines)
                took.append(time.perf_counter() - wrote)
                agent.end(agent.run, "first")
    return took


async def _run_of(api: UsersApi, text: str) -> Run:
    async def check() -> Run | Pending[Run]:
        runs = [run for run in api.agent.runs.values() if run.text.endswith(text)]
        return runs[-1] if runs else Pending("not yet")

    return await until(check, what="the agent runs it", timeout_s=30, every_s=0.002)


async def _webhooks(board: Board, folder: Path, store: str, url: str) -> None:
    """Events as Stripe sends them, at a steady rate, each durable before it is answered."""
    async with served(Starlette(routes=[Route(_WEBHOOK, _take, methods=["POST"])])) as nobody:
        nothing, _ = await _posted(nobody)
    async with _api(folder, url) as api:
        took, statuses = await _posted(api.process.url)
        kept = len(api.relay.registry.billing.queued(limit=2 * WEBHOOKS))
        alone = await asyncio.to_thread(_committed_alone, api)
    taken = sum(count for status, count in statuses.items() if status < HTTPStatus.MULTIPLE_CHOICES)
    assert kept == taken, f"{dict(statuses)} were answered, and {kept} are there"
    board.add(
        f"a webhook, {A_SECOND} a second, {store}",
        _spread(took),
        target="p99 <= 200 ms",
        against=f"answered {dict(statuses)}, {kept} rows; at the same rate a server that keeps nothing: "
        f"{_spread(nothing)}; such a row committed alone: {_spread(alone)}",
    )


async def _posted(url: str) -> tuple[list[float], Counter[int]]:
    """Send events at a steady rate: seconds of each answer, and how often each status came."""
    took: list[float] = []
    statuses: Counter[int] = Counter()

    async def post(at: float, body: bytes) -> None:
        await pause(max(0.0, at - time.perf_counter()))
        headers = {"stripe-signature": STRIPE.signature(body, at=datetime.now(UTC))}
        began = time.perf_counter()
        response = await http.post(_WEBHOOK, content=body, headers=headers)
        took.append(time.perf_counter() - began)
        statuses[response.status_code] += 1

    # On a busy computer a request waits for a connection as long as it has to, and its figure says so.
    async with own_client(base_url=url, timeout=httpx.Timeout(60, pool=None)) as http:
        begin = time.perf_counter() + 0.5
        bodies = (json.dumps({"id": f"evt_{uuid4().hex}"}).encode() for _ in range(WEBHOOKS))
        await asyncio.gather(*(post(begin + number / A_SECOND, body) for number, body in enumerate(bodies)))
    return took, statuses


async def _take(_: Request) -> Response:
    return Response()


def _committed_alone(api: UsersApi) -> list[float]:
    """Seconds of a transaction that puts one event into the queue, one after the other, with nothing around it."""
    took = []
    for _ in range(_ALONE):
        body = json.dumps({"id": f"evt_{uuid4().hex}"}).encode()
        began = time.perf_counter()
        receive(api.database, body, "t=1,v1=x")
        took.append(time.perf_counter() - began)
    return took


def _idle_streams(board: Board, folder: Path) -> None:
    """Streams of a turn that waits for its agent, and the memory of the API's process."""
    raise_open_files()
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    api = multiprocessing.get_context("spawn").Process(target=_hold, args=(folder, theirs), daemon=True)
    api.start()
    try:
        url, token, turn = ours.recv()
        before = _resident_mib(api.pid)
        opened, seconds = asyncio.run(_open_streams(url, token, turn, lambda: _resident_mib(api.pid)))
        held = opened[1]
        board.add(
            f"{opened[0]:,} idle streams of answers in one process",
            f"{held:.0f} MiB resident, {(held - before) * 1024 / max(1, opened[0]):.0f} KiB each",
            target="<= 600 MiB",
            against=f"without any: {before:.0f} MiB; opened in {seconds:.0f} s",
        )
    finally:
        api.kill()
        api.join()


def _hold(folder: Path, parent: Connection) -> None:
    """Be the API with one running turn until killed."""
    raise_open_files()
    _take_one_user_for_all()

    async def hold() -> None:
        async with _api(folder) as api, api.client() as client, client.send("wait") as events:
            turn = (await anext(events)).data["id"]
            parent.send((api.process.url, api.token(), turn))
            await asyncio.Event().wait()

    asyncio.run(hold())


def _take_one_user_for_all() -> None:
    limits.MOST_STREAMS = STREAMS + 1
    limits.RATES.update({kind: limits.Rate(STREAMS, STREAMS) for kind in limits.RATES})


async def _open_streams(url: str, token: str, turn: str, resident: Any) -> tuple[tuple[int, float], float]:  # noqa: ANN401
    began, opened = time.perf_counter(), 0
    place, gate = urlsplit(url), asyncio.Semaphore(_OPEN_AT_ONCE)
    path = f"/api/hermes/chat/turns/{turn}/events"
    request = f"GET {path} HTTP/1.1\r\nHost: {place.netloc}\r\nAuthorization: Bearer {token}\r\n\r\n".encode()
    writers: list[asyncio.StreamWriter] = []

    async def open_one() -> bool:
        async with gate:
            reader, writer = await asyncio.open_connection(place.hostname, place.port)
            writers.append(writer)
            writer.write(request)
            return b" 200 " in await reader.readline() and await _first_event(reader)

    for done in asyncio.as_completed([open_one() for _ in range(STREAMS)]):
        opened += await done
    seconds, mib = time.perf_counter() - began, resident()
    for writer in writers:
        writer.transport.abort()
    return (opened, mib), seconds


async def _first_event(reader: asyncio.StreamReader) -> bool:
    while line := await reader.readline():
        if line.startswith(b"event: turn"):
            return True
    return False


def _resident_mib(process: int | None) -> float:
    fields = Path(f"/proc/{process}/status").read_text().partition("VmRSS:")[2].split()
    return int(fields[0]) / 1024


def _spread(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    p99 = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return f"p50 {median(ordered) * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms, max {ordered[-1] * 1000:.0f} ms"
