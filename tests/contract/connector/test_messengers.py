"""What holds in every messenger: an account links by a code, each message is answered once, no limit is exceeded."""

import asyncio
import time

import pytest

from hermesops.base.waiting import pause
from hermesops.model.fleet.instance import Instance
from hermesops.store.registry import Registry
from hermesops.store.registry.database import Database
from hermesops.users.messaging.inbound.links import text_of_code
from hermesops.users.messaging.inbound.routing import CONNECTED, INVALID_CODE, STRANGER
from hermesops.users.messaging.texts.parts import parts_of
from tests.support.real.stores.registries import placed
from tests.support.users.messaging import ScriptedGateway, dialled, messaging
from tests.support.users.phones import PHONES, Phone

pytestmark = [
    pytest.mark.turns(60),
    pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True),
    pytest.mark.parametrize("make", PHONES),
]


async def answered(phone: Phone, gateway: ScriptedGateway, text: str) -> str:
    """Have the agent take the next message and answer it; returns the message."""
    frame = await gateway.next("inbound")
    await gateway.acknowledge(frame)
    event = frame["event"]
    assert event["source"]["chat_id"] == phone.chat
    result = await gateway.send(phone.chat, text, request=event["message_id"], reply_to=event["message_id"])
    assert result["success"]
    return str(event["text"])


async def test_a_linked_person_talks_to_their_agent(database: Database, ada: Instance, make: type[Phone]) -> None:
    async with messaging(database) as world, world.running(), dialled(world, ada) as gateway:
        phone = make(world)
        phone.link(ada)
        await phone.hears(CONNECTED)
        phone.say("is 1 < 2 & <b>?")
        assert await answered(phone, gateway, "yes") == "is 1 < 2 & <b>?"
        await phone.hears(CONNECTED, "yes")
        assert world.incoming.under_way(ada.id) == ()
        assert phone.broken() == {}


async def test_a_report_that_comes_again_is_one_message(database: Database, ada: Instance, make: type[Phone]) -> None:
    async with messaging(database) as world, world.running(), dialled(world, ada) as gateway:
        phone = make(world)
        phone.link(ada)
        phone.repeat()
        await phone.hears(CONNECTED)
        for text in ("one", "two"):
            phone.say(text)
            phone.repeat()
            phone.repeat()
        assert [await answered(phone, gateway, text) for text in ("re one", "re two")] == ["one", "two"]
        await phone.hears(CONNECTED, "re one", "re two")
        assert len(gateway.inbound) == 2


async def test_an_agent_reaches_no_chat_but_its_users(
    database: Database, registry: Registry, ada: Instance, make: type[Phone]
) -> None:
    bob = placed(registry, "bob")
    async with messaging(database) as world, world.running(), dialled(world, ada) as gateway:
        phone = make(world, 222)
        phone.link(bob)
        await phone.hears(CONNECTED)
        for chat in (phone.chat, phone.vendor_chat, make(world, 333).chat):
            assert (await gateway.send(chat, "psst", request=chat))["error"] == "not_your_chat"
        assert list(phone.texts) == [CONNECTED]


async def test_a_stranger_gets_one_line_and_a_code_counts_once(
    database: Database, ada: Instance, make: type[Phone]
) -> None:
    async with messaging(database) as world, world.running():
        stranger, owner = make(world, 444), make(world)
        code = world.accounts.add_code(ada.user_id)
        for text in ("hello", "hello?"):
            stranger.say(text)
        await stranger.hears(STRANGER)
        owner.say(text_of_code(owner.messenger, code))
        await owner.hears(CONNECTED)
        stranger.say(text_of_code(owner.messenger, code))
        await stranger.hears(STRANGER, INVALID_CODE)
        assert world.incoming.waiting(ada.id) == ()


async def test_a_long_answer_comes_in_parts_at_the_messengers_pace(
    database: Database, ada: Instance, make: type[Phone]
) -> None:
    async with messaging(database) as world, world.running(), dialled(world, ada) as gateway:
        phone = make(world)
        phone.link(ada)
        await phone.hears(CONNECTED)
        text = "A <b> & **bold** word. " * (3 * phone.most // 20)
        await gateway.send(phone.chat, text)
        number = len(parts_of(phone.messenger, text))
        assert number >= 3
        async with asyncio.timeout(90):
            while len(phone.texts) <= number:
                await pause(0.1)
        assert all(len(each) <= phone.most for each in phone.texts)
        assert phone.broken() == {}


async def test_a_limit_is_waited_for_as_long_as_the_messenger_says(
    registry_url: str, ada: Instance, make: type[Phone]
) -> None:
    database = Database(registry_url)  # its clock goes on, unlike that of other tests
    async with messaging(database) as world, world.running(), dialled(world, ada) as gateway:
        phone, stranger = make(world), make(world, 444)
        phone.link(ada)
        await phone.hears(CONNECTED)
        limited_at = time.monotonic()
        phone.limit(4)
        await gateway.send(phone.chat, "one", request="one")
        await pause(1)
        stranger.say("hello")
        await gateway.send(phone.chat, "two", request="two")
        await phone.hears(CONNECTED, "one", "two")
        await stranger.hears(STRANGER)
        assert time.monotonic() - limited_at >= 4
        assert phone.broken().get("ignored", 0) == 0
    database.close()


async def test_a_request_for_approval_has_buttons_where_the_messenger_shows_them(
    database: Database, ada: Instance, make: type[Phone]
) -> None:
    async with messaging(database) as world, world.running(), dialled(world, ada) as gateway:
        phone = make(world)
        phone.link(ada)
        await phone.hears(CONNECTED)
        phone.say("clean up")
        frame = await gateway.next("inbound")
        await gateway.acknowledge(frame)
        await gateway.send(phone.chat, "Run `rm -r x`? Reply /approve or /deny.", request="prompt")
        async with asyncio.timeout(30):
            while len(phone.texts) < 2:
                await pause(0.05)
        phone.press("Approve")
        assert (await gateway.next("inbound"))["event"]["text"] == "/approve"
        await gateway.send(phone.chat, "done", reply_to=frame["event"]["message_id"])
        async with asyncio.timeout(30):
            while len(phone.texts) < 3:
                await pause(0.05)
        assert phone.broken() == {}
