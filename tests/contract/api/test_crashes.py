"""The process that carries a turn dies at each of its writes, just before it and just after: one run, one end."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from hermesops.errors import UnavailableError
from hermesops.users.chat import carrier, service
from hermesops.users.chat.decide import SETTLING
from tests.support.users.api import Client, Event, Process, UsersApi

pytestmark = [pytest.mark.turns(30), pytest.mark.usefixtures("quick")]

WRITES = frozenset({"carry", "sending", "running", "queued_again", "end", "release"})
MOST_WRITES = 12
LATER = carrier.LEASE + SETTLING + timedelta(seconds=1)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look again at once."""
    monkeypatch.setattr(carrier, "_AGAIN_S", 0.02)
    monkeypatch.setattr(carrier, "_LOOK_S", 0.1)
    monkeypatch.setattr(service, "_SWEEP_S", 0.05)
    monkeypatch.setattr(service, "_LOOK_S", 0.1)


class Mortal:
    """Rows of turns, until the process dies at a write.

    Attributes:
        left: Writes that it still does.
        is_done: Whether the write at which it dies is done.
    """

    def __init__(self, rows: Any, left: int, *, is_done: bool) -> None:  # noqa: ANN401 - stands for the rows
        self._rows = rows
        self.left = left
        self.is_done = is_done
        self.died = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as above
        method = getattr(self._rows, name)
        if name not in WRITES:
            return method

        def mortal(*arguments: object, **options: object) -> object:
            self.left -= 1
            if self.left > 0 or (self.left == 0 and self.is_done):
                result = method(*arguments, **options)
                if self.left:
                    return result
            self._loop.call_soon_threadsafe(self.died.set)
            raise UnavailableError("the process is dead")

        return mortal


def mortal(process: Process, writes: int, *, is_done: bool) -> Mortal:
    rows: Any = process.chat._carrier
    rows._turns = Mortal(rows._turns, writes, is_done=is_done)
    died: Mortal = rows._turns
    return died


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "after"])
async def test_a_process_dies_at_any_write_and_the_next_one_ends_the_turn(
    api: UsersApi, ada: Client, *, is_done: bool
) -> None:
    deaths = 0
    for writes in range(1, MOST_WRITES):
        message = f"message {writes}"
        async with api.started() as first, api.client(process=first) as client:
            death = mortal(first, writes, is_done=is_done)
            end = await end_or_death(client, message, death)
            await first.die()
        if end is None:
            deaths += 1
            end = await after(api, message)
        assert (end.kind, end.data) == ("done", {"text": f"You said it: {message}"}), writes
        runs = [run for run in api.agent.runs.values() if run.text == message]
        assert len(runs) == 1, writes
    assert deaths >= 4
    assert ada


async def end_or_death(client: Client, message: str, death: Mortal) -> Event | None:
    async def end() -> Event:
        return (await client.whole(message, key=message.replace(" ", "-")))[-1]

    ending, dying = asyncio.ensure_future(end()), asyncio.ensure_future(death.died.wait())
    await asyncio.wait({ending, dying}, return_when=asyncio.FIRST_COMPLETED, timeout=20)
    result = ending.result() if ending.done() else None
    for task in (ending, dying):
        task.cancel()
    await asyncio.gather(ending, dying, return_exceptions=True)
    return result


async def after(api: UsersApi, message: str) -> Event:
    """The end of a message's turn at the next process, once the dead one's lease is over."""
    api.relay.clock.turn(LATER.total_seconds())
    async with api.client() as client:
        return (await client.whole(message, key=message.replace(" ", "-")))[-1]
