"""A thousand cuts of an answer's stream behind random events, each read on by either way: no gap, and no repeat."""

import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from hermesops.base.waiting import Pending, until
from tests.support.real.stores.registries import TurnedClock
from tests.support.users.api import Client, UsersApi, users_api
from tests.support.users.socket import opened, receive, send

TURNS, EVENTS, CUTS = 10, 40, 100
"""Events of a turn, and how often it is cut."""

pytestmark = pytest.mark.timeout(3600)

Seen = tuple[str, str, Any]


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[UsersApi]:
    async with users_api(tmp_path, f"sqlite:///{tmp_path}/state/registry.db", TurnedClock()) as api:
        moment = iter(range(10**9))
        api.process.parts.limits._monotonic = lambda: next(moment) * 60.0
        yield api


async def test_a_thousand_cuts(api: UsersApi) -> None:
    chance, api.agent.says = random.Random(38), False  # noqa: S311 - the same cuts each time
    async with api.client() as ada:
        for number in range(TURNS):
            turn, whole = await _streamed(api, ada, number)
            for cut in range(CUTS):
                stops_at = chance.randrange(1, len(whole))
                await _read_in_pieces(api, ada, turn, whole, stops_at, by_socket=bool(cut % 2))
    Console().print(f"{TURNS * CUTS} cuts")


async def _streamed(api: UsersApi, ada: Client, number: int) -> tuple[str, list[Seen]]:
    """A turn that has ended, and its events as somebody read them who was never cut."""
    runs = len(api.agent.runs)
    async with ada.send(f"message {number}") as events:
        turn = (await anext(events)).data["id"]

        async def has_begun() -> bool | Pending[bool]:
            return len(api.agent.runs) > runs or Pending("no run yet")

        await until(has_begun, what="the run", timeout_s=30, every_s=0.01)
        run = list(api.agent.runs.values())[-1]
        for piece in range(EVENTS):
            if piece % 5:
                api.agent.push(run, "message.delta", delta=f"{piece} ")
            else:
                api.agent.push(run, "tool.started", tool="terminal", preview=f"ls {piece}")
        api.agent.end(run, f"the answer {number}")
        whole = [(event.id, event.kind, event.data) async for event in events]
    assert len(whole) > EVENTS // 5  # pieces of text that follow each other are one event
    return turn, whole


async def _read_in_pieces(
    api: UsersApi, ada: Client, turn: str, whole: list[Seen], stops_at: int, *, by_socket: bool
) -> None:
    """Read so many events of the turn, and the rest by another connection."""
    read = await _piece(api, ada, turn, "", stops_at, by_socket=by_socket)
    read += await _piece(api, ada, turn, read[-1][0], len(whole) - stops_at, by_socket=not by_socket)
    assert read == whole


async def _piece(api: UsersApi, ada: Client, turn: str, after: str, most: int, *, by_socket: bool) -> list[Seen]:
    if by_socket:
        async with opened(api) as socket:
            await send(socket, type="follow", turn=turn, after=after)
            await receive(socket)  # names the turn
            frames = [await receive(socket) for _ in range(most)]
        return [(frame["id"], frame["event"], frame["data"]) for frame in frames]
    async with ada.resume(turn, after) as events:
        await anext(events)
        streamed = [await anext(events) for _ in range(most)]
    return [(event.id, event.kind, event.data) for event in streamed]
