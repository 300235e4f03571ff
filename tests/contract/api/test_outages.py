"""The database goes away for a while: who carries a turn waits for it, and who reads one keeps the stream."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from hermesops.base.waiting import Pending, pause, until
from hermesops.model.chat.transcript import AgentView, Transcript
from hermesops.model.chat.turn import Turn
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.store.user_rows.files import ChatFile
from hermesops.users.chat import carrier, service
from tests.support.real.stores.postgresql import PostgreSql
from tests.support.real.stores.registries import TurnedClock
from tests.support.users.api import Client, UsersApi, users_api

pytestmark = [pytest.mark.postgres, pytest.mark.turns(20), pytest.mark.usefixtures("quick")]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look again at once."""
    monkeypatch.setattr(carrier, "_AGAIN_S", 0.02)
    monkeypatch.setattr(carrier, "_LOOK_S", 0.1)
    monkeypatch.setattr(service, "_LOOK_S", 0.02)


@pytest.fixture
async def api(tmp_path: Path, postgresql_server: PostgreSql) -> AsyncIterator[UsersApi]:
    """The clock stands still: no lease runs out, so nobody else takes a turn."""
    async with users_api(tmp_path, postgresql_server.new_registry(), TurnedClock()) as api:
        api.agent.says = False
        yield api


async def has_run(api: UsersApi) -> None:
    async def check() -> bool | Pending[bool]:
        return bool(api.agent.runs) or Pending("not yet")

    await until(check, what="the agent has a run", timeout_s=20, every_s=0.01)


async def test_a_turn_goes_on_once_the_database_is_back(
    api: UsersApi, ada: Client, postgresql_server: PostgreSql
) -> None:
    with capture_logs() as lines:
        async with asyncio.timeout(30), ada.send("go") as events:
            assert (await anext(events)).kind == "turn"
            await has_run(api)
            api.agent.push(api.agent.run, "message.delta", delta="first ")
            assert (await anext(events)).data == {"text": "first "}
            postgresql_server.crash()
            await pause(3 * carrier._LOOK_S)  # nothing comes for so long that its carrier looks at the rows
            try:
                api.agent.push(api.agent.run, "approval.request", command="rm -r /", choices=["once", "deny"])
                api.agent.push(api.agent.run, "message.delta", delta="second ")
                assert (await anext(events)).data == {"text": "second "}  # and no request that nobody recorded
                api.agent.end(api.agent.run, "first second third")
                await pause(0.5)
            finally:
                postgresql_server.start()
            assert [(event.kind, event.data) async for event in events] == [("done", {"text": "first second third"})]
    assert api.agent.posts == 1
    assert not [line for line in lines if line["event"] == "turn_not_carried"], "its carrier waited, and kept it"


async def test_a_reader_at_another_process_keeps_its_stream(
    api: UsersApi, ada: Client, postgresql_server: PostgreSql
) -> None:
    async with asyncio.timeout(30), ada.send("go") as events:
        turn = (await anext(events)).data["id"]
        await has_run(api)
        async with api.started() as other, api.client(process=other) as elsewhere, elsewhere.resume(turn) as reading:
            assert (await anext(reading)).kind == "turn"
            postgresql_server.crash()
            try:
                await pause(0.5)
            finally:
                postgresql_server.start()
            api.agent.end(api.agent.run, "whole")
            assert [(event.kind, event.data) async for event in reading] == [("done", {"text": "whole"})]


async def test_an_answer_that_cannot_be_read_now_is_waited_for(api: UsersApi, ada: Client) -> None:
    """Its events are at the process that carried it, or gone with it; an empty answer would be taken for the whole."""
    api.agent.says = True
    turn = (await ada.whole("go"))[0].data["id"]
    async with api.started() as other, api.client(process=other) as elsewhere, asyncio.timeout(30):
        api.agent.hides = 3
        async with elsewhere.resume(turn) as reading:
            assert [(event.kind, event.data) async for event in reading][1:] == [("done", {"text": "You said it: go"})]
    assert api.agent.hides == 0


async def test_an_answer_of_an_agent_that_was_suspended_is_no_empty_one(api: UsersApi, ada: Client) -> None:
    api.agent.says = True
    turn = (await ada.whole("go"))[0].data["id"]
    api.relay.registry.instances.set_status(api.ada.id, InstanceStatus.SUSPENDED)
    async with api.started() as other, api.client(process=other) as elsewhere, elsewhere.resume(turn) as reading:
        async with asyncio.timeout(30):
            assert [(event.kind, event.data) async for event in reading][1:] == [("failed", {"detail": carrier.ENDED})]


async def test_a_process_that_hung_sends_nothing_that_another_one_sent(
    api: UsersApi, ada: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stood still between its last look at the time and the relay, for longer than its lease."""
    monkeypatch.setattr(carrier, "_STALLED_S", 2.0)
    monkeypatch.setattr(carrier, "_RENEW_S", 3600)
    monkeypatch.setattr(service, "_SWEEP_S", 0.05)
    runs = api.process.chat._carrier._runs
    start, hangs, ends = runs.start, asyncio.Event(), asyncio.Event()

    async def hung_start(turn: Turn, transcript: Transcript, files: Sequence[ChatFile], *, until: float) -> str:
        hangs.set()
        await ends.wait()
        while time.time() <= until:
            await pause(0.05)
        try:
            return await start(turn, transcript, files, until=until)
        finally:
            ends.clear()

    runs.start = hung_start  # type: ignore[method-assign]
    async with asyncio.timeout(60), ada.send("go") as events:
        turn = (await anext(events)).data["id"]
        await hangs.wait()
        async with api.started() as other, api.client(process=other) as elsewhere, elsewhere.resume(turn) as reading:
            api.relay.clock.turn(60)  # the lease has run out, and the message would be there by now
            await has_run(api)
            api.agent.end(api.agent.run, "answered")
            assert [(event.kind, event.data) async for event in reading][1:] == [("done", {"text": "answered"})]
            ends.set()
            while ends.is_set():
                await pause(0.05)
    assert api.agent.posts == 1


async def test_a_look_at_the_agent_that_is_old_by_now_sends_nothing_again(api: UsersApi, ada: Client) -> None:
    """A process that stood still after its look, while the agent stored the message whose answer was lost."""
    api.agent.stores, api.agent.loses = False, 1
    runs = api.process.chat._carrier._runs
    look = runs.view

    async def old_look(turn: Turn) -> AgentView | None:
        view = await look(turn)
        if turn.sent_at is not None and not api.agent.sessions:
            api.agent.say(turn.session, "user", "go")
            api.agent.end(api.agent.run, "answered")
            api.relay.clock.turn(60)
        return view

    runs.view = old_look  # type: ignore[method-assign]
    async with asyncio.timeout(30), ada.send("go") as events:
        await anext(events)
        await has_run(api)
        api.agent.run.status = "completed"  # so no run seems to be active
        assert [(event.kind, event.data) async for event in events] == [("done", {"text": "answered"})]
    assert api.agent.posts == 1
