"""WhatsApp's own rules: answers wait for their user outside of 24 hours, failures come late, people show no number."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from hermesops.base.waiting import Pending, pause, until
from hermesops.localcloud.vendors.whatsapp import merged
from hermesops.model.fleet.instance import Instance
from hermesops.model.messaging.message import OutgoingState
from hermesops.model.messaging.messenger import Messenger
from hermesops.store.registry import Registry
from hermesops.store.registry.database import Database
from hermesops.users.messaging.directory import MessageDirectory
from hermesops.users.messaging.inbound.routing import CONNECTED
from tests.support.real.stores.registries import TurnedClock
from tests.support.users.messaging import dialled, messaging
from tests.support.users.phones import WhatsAppPhone

pytestmark = pytest.mark.turns(20)

DAY_S = timedelta(hours=24).total_seconds()


async def until_states(registry: Registry, expected: Sequence[OutgoingState]) -> None:
    """Wait until the newest messages to a user are in these states, oldest first, as operators see them."""

    async def look() -> bool | Pending[bool]:
        messages = await asyncio.to_thread(MessageDirectory(registry).list, messenger="whatsapp", limit=9)
        states = [message.state for message in messages if message.id.startswith("out-")]
        is_so = states[: len(expected)][::-1] == list(expected)
        return is_so or Pending(repr([(message.state, message.detail) for message in messages]))

    await until(look, what=f"messages that are {expected}", timeout_s=30, every_s=0.05)


async def test_an_answer_outside_of_the_window_waits_for_the_users_next_message(
    database: Database, registry: Registry, ada: Instance, clock: TurnedClock
) -> None:
    async with messaging(database) as world, world.running(), dialled(world, ada) as gateway:
        phone = WhatsAppPhone(world)
        phone.link(ada)
        await phone.hears(CONNECTED)
        clock.turn(DAY_S)
        phone.someone.heard_at -= DAY_S
        for text in ("cron", "cron again"):
            assert (await gateway.send(phone.chat, text, request=text))["success"]
        await until_states(registry, [OutgoingState.WAITING, OutgoingState.QUEUED])
        waiting, _ = MessageDirectory(registry).list(messenger="whatsapp", limit=2)[::-1]
        assert waiting.detail == "outside of the 24 hours after its user's last message"
        await pause(1.2)
        assert list(phone.texts) == [CONNECTED]
        clock.turn(1)
        phone.say("hello")
        await phone.hears(CONNECTED, "cron", "cron again")
        assert phone.broken() == {}


async def test_a_message_that_whatsapp_takes_and_does_not_deliver_is_sent_after_the_users_next_one(
    database: Database, registry: Registry, ada: Instance, clock: TurnedClock
) -> None:
    async with messaging(database) as world, world.running(), dialled(world, ada) as gateway:
        phone = WhatsAppPhone(world)
        phone.link(ada)
        await phone.hears(CONNECTED)
        clock.turn(1)
        phone.someone.heard_at -= DAY_S  # by WhatsApp's clock alone
        await gateway.send(phone.chat, "hi")
        await until_states(registry, [OutgoingState.WAITING])
        await pause(1.2)
        assert phone.broken() == {"window": 1}, "it is not sent again before that"
        clock.turn(1)
        phone.say("hello")
        await phone.hears(CONNECTED, "hi")
        assert phone.broken() == {"window": 1}


@pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)
async def test_a_message_that_the_agent_is_at_is_read_and_shows_one_sign_until_the_answer(
    database: Database, ada: Instance
) -> None:
    async with messaging(database) as world, world.running(), dialled(world, ada) as gateway:
        phone = WhatsAppPhone(world)
        phone.link(ada)
        await phone.hears(CONNECTED)
        assert phone.someone.read == set()
        phone.say("hello")
        frame = await gateway.next("inbound")
        await gateway.acknowledge(frame)

        async def look() -> bool | Pending[bool]:
            return phone.someone.read == {phone.someone.messages[-1]} or Pending(repr(phone.someone.read))

        await until(look, what="the message to be read", timeout_s=30, every_s=0.05)
        await pause(2.5)  # signs are looked for each second
        assert phone.someone.typing == 1
        await gateway.send(phone.chat, "hi", reply_to=frame["event"]["message_id"])
        await phone.hears(CONNECTED, "hi")
        assert phone.someone.typing_until == float("-inf")
        assert phone.broken() == {}


async def test_a_person_who_blocks_the_number_is_marked_until_they_write_again(
    database: Database, registry: Registry, ada: Instance
) -> None:
    async with messaging(database) as world, world.running(), dialled(world, ada) as gateway:
        phone = WhatsAppPhone(world)
        phone.link(ada)
        await phone.hears(CONNECTED)
        phone.someone.is_blocked = True
        await gateway.send(phone.chat, "hi")
        await until_states(registry, [OutgoingState.REFUSED])

        async def is_marked() -> bool | Pending[bool]:
            account = world.accounts.get(Messenger.WHATSAPP, phone.vendor_chat)
            return (account is not None and account.blocked_at is not None) or Pending(repr(account))

        await until(is_marked, what="the mark, which follows the refusal", timeout_s=30, every_s=0.05)
        phone.someone.is_blocked = False
        phone.say("hello")
        await gateway.next("inbound")
        account = world.accounts.get(Messenger.WHATSAPP, phone.vendor_chat)
        assert account is not None
        assert account.blocked_at is None
        assert phone.broken() == {}


async def test_people_whose_numbers_are_hidden_and_bodies_of_several_reports(database: Database, ada: Instance) -> None:
    async with messaging(database) as world, world.running(), dialled(world, ada) as gateway:
        phone = WhatsAppPhone(world)
        phone.someone.is_hidden = True
        phone.link(ada)
        await phone.hears(CONNECTED)
        first, second = (world.whatsapp.message(phone.number, text) for text in ("one", "two"))
        world.take_of_whatsapp(merged(first, second, first))
        for text in ("one", "two"):
            frame = await gateway.next("inbound")
            assert frame["event"]["text"] == text
            await gateway.acknowledge(frame)
            await gateway.send(phone.chat, f"re {text}", request=text, reply_to=frame["event"]["message_id"])
        await phone.hears(CONNECTED, "re one", "re two")
        assert phone.broken() == {}
        assert phone.number not in repr(gateway.inbound)
