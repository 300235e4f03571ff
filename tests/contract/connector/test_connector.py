"""From a messenger to an agent's socket and back: each message once, whatever closes in between."""

import asyncio
import json
from contextlib import AsyncExitStack
from typing import Any, NoReturn
from unittest.mock import patch

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from hermesops.base.waiting import Pending, pause, until
from hermesops.connector import server
from hermesops.connector.sockets import AgentSocket
from hermesops.errors import UnavailableError
from hermesops.model.chat.transcript import Message, Transcript
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.ids import InstanceId
from hermesops.model.messaging.message import IncomingState
from hermesops.model.messaging.messenger import Messenger
from hermesops.store.message_rows.incoming import IncomingMessages
from hermesops.store.message_rows.sockets import AgentSockets
from hermesops.store.registry import Registry
from hermesops.store.registry.database import Database
from hermesops.users.messaging.inbound.routing import CONNECTED, INVALID_CODE, STRANGER
from hermesops.users.messaging.recovery.reconcile import ChatView
from hermesops.users.messaging.recovery.sweep import RECOVERED, UNNAMED, Sweep
from hermesops.users.messaging.texts.parts import parts_of
from tests.support.real.stores.registries import TurnedClock, placed
from tests.support.users.messaging import Messaging, dialled, messaging

pytestmark = pytest.mark.turns(30)

ADA, BOB = 111, 222


async def flooded(world: Messaging, instance: Instance, data: bytes) -> None:
    async with dialled(world, instance) as hostile:
        await hostile.socket.send(data)
        await hostile.next("never")


async def test_a_linked_person_talks_to_their_agent(database: Database, ada: Instance) -> None:
    async with messaging(database) as world, world.running(), dialled(world, ada) as gateway:
        world.link(ada, ADA)
        await world.hears(ADA, CONNECTED)
        world.say(ADA, "hello")
        frame = await gateway.next("inbound")
        event = frame["event"]
        assert (event["text"], event["source"]["chat_id"], event["source"]["platform"]) == ("hello", "tg.111", "relay")
        await gateway.acknowledge(frame)
        result = await gateway.send("tg.111", "**hi**", reply_to=event["message_id"])
        assert result["success"]
        await world.hears(ADA, CONNECTED, "hi")
        assert world.telegram.entities["hi"] == [{"type": "bold", "offset": 0, "length": 2}]
        assert world.incoming.under_way(ada.id) == ()
        assert not world.telegram.broken


@pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)
async def test_a_person_sees_that_their_agent_is_at_work_until_it_answers(database: Database, ada: Instance) -> None:
    async with messaging(database) as world, world.running(), dialled(world, ada) as gateway:
        world.link(ada, ADA)
        await world.hears(ADA, CONNECTED)
        assert world.telegram.chat(ADA).typing == 0
        world.say(ADA, "hello")
        frame = await gateway.next("inbound")
        await gateway.acknowledge(frame)
        await until_typing(world, 2)
        await gateway.send("tg.111", "hi", reply_to=frame["event"]["message_id"])
        assert world.incoming.chats_at_work(Messenger.TELEGRAM) == ()


async def until_typing(world: Messaging, times: int) -> None:
    async def look() -> bool | Pending[bool]:
        return world.telegram.chat(ADA).typing >= times or Pending(str(world.telegram.chat(ADA).typing))

    await until(look, what="a sign of typing", timeout_s=20, every_s=0.1)


async def test_a_message_goes_to_an_open_socket_without_the_queue_and_never_past_an_earlier_one(
    database: Database, ada: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with messaging(database) as world, world.running(), dialled(world, ada) as gateway:
        world.link(ada, ADA)
        await world.hears(ADA, CONNECTED)
        queued = list[int]()
        queue = IncomingMessages.queue

        def noted(self: IncomingMessages, id_: int, *words: Any, **options: Any) -> bool:  # noqa: ANN401 - passed on
            queued.append(id_)
            return queue(self, id_, *words, **options)

        monkeypatch.setattr(IncomingMessages, "queue", noted)
        world.say(ADA, "first")
        first = await gateway.next("inbound")
        assert queued == []
        world.say(ADA, "second")
        world.say(ADA, "third")
        await gateway.send("tg.111", "1", "r1", reply_to=first["event"]["message_id"])
        second = await gateway.next("inbound")
        await gateway.send("tg.111", "2", "r2", reply_to=second["event"]["message_id"])
        third = await gateway.next("inbound")
        assert [frame["event"]["text"] for frame in (first, second, third)] == ["first", "second", "third"]


@pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)
async def test_a_socket_that_has_closed_takes_no_message(database: Database, ada: Instance) -> None:
    given_up = asyncio.Event()
    with patch.object(AgentSocket, "_release", lambda _: given_up.wait()):
        async with messaging(database) as world, world.running(), dialled(world, ada):
            assert world.running_connector.free_fence_of(ada.id) > 0
            await world.close_sockets()
            fence = world.running_connector.free_fence_of(ada.id)
            given_up.set()
            assert fence == 0


async def test_a_gateway_that_stops_gets_nothing_more_and_loses_nothing(database: Database, ada: Instance) -> None:
    async with messaging(database) as world, world.running() as connector:
        async with dialled(world, ada) as gateway:
            world.link(ada, ADA)
            await world.hears(ADA, CONNECTED)
            await gateway.frame({"type": "going_idle"})
            await gateway.next("going_idle_ack")
            assert connector.free_fence_of(ada.id) == 0
            # As if the router had looked just before: the message is recorded as under way, and then put back.
            fence = connector.fence_of(ada.id)
            world.say_elsewhere(ADA, "hello")
            [report] = world.incoming.received()
            sent = world.incoming.send_received(report.id, ada.user_id, ada.id, fence)
            assert sent
            connector.deliver(sent)
            await until_waiting(world, ada)
            assert gateway.inbound == []
        async with dialled(world, ada) as again:
            assert (await again.next("inbound"))["event"]["text"] == "hello"


async def test_a_socket_that_closes_gets_nothing_more_and_loses_nothing(
    database: Database, ada: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest of the socket's work is held up, as on a busy computer: its row is given up later."""
    release = AgentSocket._release

    async def later(self: AgentSocket) -> None:
        await pause(3)
        await release(self)

    monkeypatch.setattr(AgentSocket, "_release", later)
    async with messaging(database) as world, world.running() as connector:
        async with dialled(world, ada):
            world.link(ada, ADA)
            await world.hears(ADA, CONNECTED)
            await world.close_sockets()
            assert connector.free_fence_of(ada.id) == 0
            world.say(ADA, "hello")
            await until_waiting(world, ada)
        async with dialled(world, ada) as again:
            assert (await again.next("inbound"))["event"]["text"] == "hello"


async def until_waiting(world: Messaging, instance: Instance) -> None:
    async def look() -> bool | Pending[bool]:
        return bool(world.incoming.waiting(instance.id)) or Pending("not yet")

    await until(look, what="the message to wait again", timeout_s=20, every_s=0.05)


async def test_who_writes_to_the_bot_has_not_blocked_it(database: Database, ada: Instance) -> None:
    async with messaging(database) as world, world.running(), dialled(world, ada) as gateway:
        world.link(ada, ADA)
        await world.hears(ADA, CONNECTED)
        world.accounts.mark_blocked(Messenger.TELEGRAM, str(ADA), is_blocked=True)
        world.say(ADA, "hello")
        await gateway.next("inbound")
        [account] = world.accounts.of_user(ada.user_id)
        assert account.blocked_at is None


@pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)
async def test_a_long_answer_comes_in_parts_that_telegram_takes(database: Database, ada: Instance) -> None:
    text = "Look:\n\n```python\n" + "print('\U0001f600')\n" * 400 + "```\n\n" + "**bold** words " * 120
    async with messaging(database) as world, world.running(), dialled(world, ada) as gateway:
        world.link(ada, ADA)
        await world.hears(ADA, CONNECTED)
        await gateway.send("tg.111", text)
        parts = [json.loads(part)["text"] for part in parts_of(Messenger.TELEGRAM, text)]
        await world.hears(ADA, CONNECTED, *parts)
        assert len(parts) > 1
        assert [entity["language"] for entity in world.telegram.entities[parts[1]] if entity["type"] == "pre"] == [
            "python"
        ]
        assert not world.telegram.broken


async def test_a_request_that_is_repeated_is_written_once(database: Database, ada: Instance) -> None:
    async with messaging(database) as world, world.running(), dialled(world, ada) as gateway:
        world.link(ada, ADA)
        await world.hears(ADA, CONNECTED)
        first, again = [await gateway.send("tg.111", "hi", request="same") for _ in range(2)]
        assert first == again
        assert (await gateway.send("tg.111", "bye", request="other"))["success"]
        await world.hears(ADA, CONNECTED, "hi", "bye")


async def test_messages_of_a_chat_come_one_at_a_time(database: Database, ada: Instance) -> None:
    async with messaging(database) as world, world.running(), dialled(world, ada) as gateway:
        world.link(ada, ADA)
        await world.hears(ADA, CONNECTED)
        for text in ("one", "two", "three"):
            world.say(ADA, text)
        for text in ("one", "two", "three"):
            frame = await gateway.next("inbound")
            assert frame["event"]["text"] == text
            await gateway.acknowledge(frame)
            assert len(world.incoming.under_way(ada.id)) == 1
            await gateway.send("tg.111", f"re {text}", request=text, reply_to=frame["event"]["message_id"])
        await world.hears(ADA, CONNECTED, "re one", "re two", "re three")


async def test_an_agent_reaches_no_chat_but_its_users(database: Database, registry: Registry, ada: Instance) -> None:
    bob = placed(registry, "bob")
    async with messaging(database) as world, world.running(), dialled(world, ada) as gateway:
        world.link(bob, BOB)
        await world.hears(BOB, CONNECTED)
        for chat in ("tg.222", "tg.333", "222", "", "xx.222", "tg.", "tg.111"):
            assert await gateway.send(chat, "psst", request=chat or "none") == {
                "success": False,
                "error": "not_your_chat",
            }
        assert world.telegram.chat(BOB).texts == [CONNECTED]


async def test_strangers_get_one_line_and_codes_that_are_not_valid_nothing_else(
    database: Database, ada: Instance
) -> None:
    async with messaging(database) as world, world.running():
        for text in ("hello", "hello?", f"/start {'A' * 16}"):
            world.say(ADA, text)
        await world.hears(ADA, STRANGER, INVALID_CODE)
        assert world.incoming.waiting(ada.id) == ()


async def test_a_message_waits_for_an_agent_that_is_away(database: Database, ada: Instance) -> None:
    async with messaging(database) as world, world.running():
        world.link(ada, ADA)
        await world.hears(ADA, CONNECTED)
        world.say(ADA, "hello")
        async with dialled(world, ada) as gateway:
            frame = gateway.inbound[0] if gateway.inbound else await gateway.next("inbound")
            assert frame["event"]["text"] == "hello"
        (message,) = world.incoming.under_way(ada.id)
        assert message.state is IncomingState.SENT


@pytest.mark.parametrize(
    ("text", "detail", "texts"), [("answer", UNNAMED, []), ("another text", RECOVERED, ["answer"])]
)
async def test_an_answer_that_came_as_an_answer_to_nothing_is_not_recovered_as_well(
    database: Database, ada: Instance, text: str, detail: str, texts: list[str]
) -> None:
    """hermes-agent 0.19.0 names no message where it goes on with several of them after a kill."""
    async with messaging(database) as world, world.running(), dialled(world, ada) as gateway:
        world.link(ada, ADA)
        await world.hears(ADA, CONNECTED)
        world.say(ADA, "hello")
        await gateway.next("inbound")
        await gateway.send("tg.111", text, "r1")
        [incoming] = world.incoming.under_way(ada.id)

        async def read(_instance_id: InstanceId, _chat: str) -> ChatView:
            question = Message(1, "user", "hello", at=incoming.sent_at)
            return ChatView(Transcript((question, Message(2, "assistant", "answer", is_final=True))))

        sweep = Sweep(world.incoming, world.outgoing, read, world.agent_of)
        assert await sweep.run(ada.id, 0) == 1
        assert world.incoming.under_way(ada.id) == ()
        assert world.incoming.detail_of(incoming.id) == detail
        await world.hears(ADA, CONNECTED, text, *texts)


async def test_messages_of_an_agent_that_is_suspended_end_at_once(
    database: Database, registry: Registry, ada: Instance
) -> None:
    async with messaging(database) as world, world.running():
        world.link(ada, ADA)
        await world.hears(ADA, CONNECTED)
        async with dialled(world, ada) as gateway:
            world.say(ADA, "first")
            await gateway.next("inbound")
            world.say(ADA, "second")
            await until_routed(world, ada)
        sweep = Sweep(world.incoming, world.outgoing, never_read, world.agent_of)
        assert await sweep.run(ada.id, 0) == 0, "an agent that runs comes back"
        registry.instances.set_status(ada.id, InstanceStatus.SUSPENDED)
        assert await sweep.run(ada.id, 0) == 1
        assert await sweep.run(ada.id, 0) == 1
        await world.hears(
            ADA,
            CONNECTED,
            "Your agent was suspended while it was at this message. It may have done part of it.",
            "Your agent was suspended before it got this message. Send it again once your agent runs.",
        )
        assert world.incoming.agents_at_work() == frozenset()


async def until_routed(world: Messaging, instance: Instance) -> None:
    async def look() -> bool | Pending[bool]:
        return instance.id in world.incoming.queued_for() or Pending("not yet")

    await until(look, what="the message to be routed", timeout_s=20, every_s=0.05)


async def never_read(_instance_id: InstanceId, _chat: str) -> NoReturn:
    raise UnavailableError("the agent does not answer")


async def test_an_approval_that_comes_late_is_dropped(database: Database, ada: Instance, clock: TurnedClock) -> None:
    async with messaging(database) as world, world.running():
        world.link(ada, ADA)
        await world.hears(ADA, CONNECTED)
        world.say(ADA, "/approve")
        await until_queued(world, ada)
        clock.turn(61)
        world.say(ADA, "hello")
        async with dialled(world, ada) as gateway:
            frame = gateway.inbound[0] if gateway.inbound else await gateway.next("inbound")
            assert frame["event"]["text"] == "hello"
            assert world.incoming.commands(ada.id) == ()


async def until_queued(world: Messaging, instance: Instance) -> None:
    async def look() -> bool | Pending[bool]:
        return bool(world.incoming.commands(instance.id)) or Pending("not yet")

    await until(look, what="a command", timeout_s=20, every_s=0.05)


async def test_a_second_socket_of_an_agent_replaces_the_first(database: Database, ada: Instance) -> None:
    async with messaging(database) as world, world.running(), dialled(world, ada) as first, dialled(world, ada):
        with pytest.raises(ConnectionClosed) as closed:
            await first.next("inbound")
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4408


async def test_a_socket_that_another_process_took_is_closed(
    database: Database, ada: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_KEEP_EVERY_S", 0.2)
    async with messaging(database) as world, world.running(), dialled(world, ada) as gateway:
        AgentSockets(database).take(ada.id, "another process")
        with pytest.raises(ConnectionClosed) as closed:
            await gateway.next("inbound")
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 4408


async def test_an_agent_acknowledges_no_message_of_another_agent(
    database: Database, registry: Registry, ada: Instance
) -> None:
    bob = placed(registry, "bob")
    async with messaging(database) as world, world.running(), dialled(world, ada) as gateway:
        world.link(ada, ADA)
        await world.hears(ADA, CONNECTED)
        world.say(ADA, "hello")
        frame = await gateway.next("inbound")
        async with dialled(world, bob) as other:  # whose socket has the same fence
            await other.acknowledge(frame)
            await other.send("tg.9", "x")
        assert [message.state for message in world.incoming.under_way(ada.id)] == [IncomingState.SENT]
        await gateway.acknowledge(frame)
        await gateway.send("tg.9", "x")
        assert [message.state for message in world.incoming.under_way(ada.id)] == [IncomingState.TAKEN]


async def test_sockets_without_messages_ask_the_database_nothing(
    database: Database, registry: Registry, ada: Instance
) -> None:
    """Five thousand of them would be ten thousand questions a second."""
    others = [placed(registry, f"user{number}") for number in range(8)]
    async with AsyncExitStack() as stack:
        world = await stack.enter_async_context(messaging(database))
        await stack.enter_async_context(world.running())
        for instance in (ada, *others):
            await stack.enter_async_context(dialled(world, instance))
        await pause(1)  # each has looked once
        with patch.object(IncomingMessages, "waiting", return_value=()) as question:
            await pause(2.5)
    question.assert_not_called()


async def test_a_database_that_is_away_ends_no_socket(
    database: Database, ada: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_KEEP_EVERY_S", 0.2)

    def away(*_: object) -> NoReturn:
        raise UnavailableError("the database does not answer")

    async with messaging(database) as world, world.running(), dialled(world, ada) as gateway:
        world.link(ada, ADA)
        await world.hears(ADA, CONNECTED)
        world.say(ADA, "hello")
        frame = await gateway.next("inbound")
        with monkeypatch.context() as patches:
            for rows, method in ((IncomingMessages, "taken"), (IncomingMessages, "queued_for"), (AgentSockets, "held")):
                patches.setattr(rows, method, away)
            await gateway.acknowledge(frame)
            await pause(1.5)
        assert (await gateway.send("tg.111", "hi"))["success"]
        await world.hears(ADA, CONNECTED, "hi")


async def test_who_does_not_sign_as_an_agent_gets_no_socket(
    database: Database, registry: Registry, ada: Instance
) -> None:
    bob = placed(registry, "bob")
    async with messaging(database) as world, world.running():
        for secret in (world.secrets_of(bob.id)[0], "x" * 64):
            with pytest.raises(InvalidStatus, match="401"):
                async with dialled(world, ada, secret):
                    pass


@pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)
async def test_frames_that_are_malformed_or_too_many_end_the_agents_own_socket_alone(
    database: Database, registry: Registry, ada: Instance
) -> None:
    bob = placed(registry, "bob")
    async with messaging(database) as world, world.running(), dialled(world, bob) as honest:
        for flood in (b"not json\n", b"[" * 100_000, b'{"type": "hello"}\n' * 2_000):
            with pytest.raises(ConnectionClosed):
                await flooded(world, ada, flood)
        assert (await honest.send("tg.9", "x"))["error"] == "not_your_chat"
