"""Discord's gateway: no message is lost where a socket breaks, and none comes twice."""

import asyncio
from collections.abc import Callable
from typing import NoReturn

import pytest

from hermesops.base.waiting import Pending, pause, until
from hermesops.errors import UnavailableError
from hermesops.model.fleet.instance import Instance
from hermesops.model.messaging.messenger import Messenger
from hermesops.store.message_rows.incoming import IncomingMessages
from hermesops.store.registry import Registry
from hermesops.store.registry.database import Database
from hermesops.store.registry.schema.messaging_tables import incoming_messages
from hermesops.users.messaging.inbound.routing import CONNECTED
from hermesops.users.messaging.messengers.discord import gateway as module
from tests.support.users.messaging import Messaging, messaging
from tests.support.users.phones import DiscordPhone

pytestmark = [pytest.mark.turns(30), pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin sessions with the pauses that Discord documents, and wait less elsewhere."""
    monkeypatch.setattr(module, "_LONGEST_BACKOFF_S", 0.5)


async def until_true(check: Callable[[], bool], what: str) -> None:
    async def look() -> bool | Pending[bool]:
        return check() or Pending("not yet")

    await until(look, what=what, timeout_s=30, every_s=0.05)


async def until_resumed(world: Messaging, times: int) -> None:
    await until_true(lambda: world.discord.gateway.resumed >= times, f"a session that was resumed {times} times")


async def texts_become(world: Messaging, ada: Instance, *texts: str) -> None:
    """Wait until exactly these messages wait for the agent."""

    def waiting() -> list[str]:
        return [row.text for row in world.incoming._list(incoming_messages.c.instance_id == ada.id, 50)]

    await until_true(lambda: waiting() == list(texts), f"messages {texts}")


async def linked(world: Messaging, ada: Instance) -> DiscordPhone:
    phone = DiscordPhone(world)
    phone.link(ada)
    await phone.hears(CONNECTED)
    return phone


async def test_a_session_is_noted_for_operators(database: Database, registry: Registry, ada: Instance) -> None:
    async with messaging(database) as world, world.running():
        await linked(world, ada)
        await until_true(lambda: registry.message_figures.read().sessions == {"discord": True}, "a session in its row")


async def test_a_socket_that_breaks_is_resumed_and_what_came_meanwhile_is_there(
    database: Database, ada: Instance
) -> None:
    async with messaging(database) as world, world.running():
        phone = await linked(world, ada)
        vendor = world.discord
        for number, end in enumerate(("abort", "reconnect", "4000", "deaf")):
            if end == "abort":
                await vendor.gateway.drop()
            elif end == "reconnect":
                vendor.gateway.ask_for_another()
            elif end == "4000":
                await vendor.gateway.drop(4000)
            else:
                vendor.gateway.beat_s, vendor.gateway.is_deaf = 0.4, True
                await vendor.gateway.drop()
            vendor.gateway.dispatch("MESSAGE_CREATE", vendor.message(phone.someone.id, end))
            await until_resumed(world, number + 1 + (end == "deaf"))
            await texts_become(world, ada, *("abort", "reconnect", "4000", "deaf")[: number + 1])
        vendor.gateway.is_deaf = False
        assert vendor.gateway.sessions_left == 999
        assert phone.broken() == {}


async def test_messages_that_came_without_a_session_are_read_from_the_chat(database: Database, ada: Instance) -> None:
    async with messaging(database) as world:
        async with world.running():
            phone = await linked(world, ada)
            world.discord.gateway.dispatch("MESSAGE_CREATE", world.discord.message(phone.someone.id, "one"))
            await texts_become(world, ada, "one")
        world.discord.gateway.forget()
        world.discord.message(phone.someone.id, "two")
        world.discord.message("100009999", "of a stranger")
        await pause(5)  # Discord takes one session in five seconds
        async with world.running():
            await texts_become(world, ada, "one", "two")
        assert world.discord.gateway.sessions_left == 998
        assert phone.broken() == {}


async def test_a_session_that_is_not_valid_any_more_is_begun_anew(database: Database, ada: Instance) -> None:
    async with messaging(database) as world, world.running():
        phone = await linked(world, ada)
        world.discord.message(phone.someone.id, "missed")
        await pause(5)  # Discord takes one session in five seconds
        await world.discord.gateway.drop()
        world.discord.gateway.forget()
        await texts_become(world, ada, "missed")
        assert world.discord.gateway.sessions_left == 998
        assert phone.broken() == {}


async def test_a_message_while_the_database_is_away_is_kept_once_it_is_back(
    database: Database, ada: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> NoReturn:
        raise UnavailableError("the database does not answer")

    async with messaging(database) as world, world.running():
        phone = await linked(world, ada)
        with monkeypatch.context() as patches:
            patches.setattr(world.gateway, "receive", away)
            for text in ("one", "two"):
                phone.report(text)
            await pause(1.5)
            await world.discord.gateway.drop()
        world.gateway.receive = IncomingMessages(database, world.incoming._messages).add
        await texts_become(world, ada, "one", "two")
        assert phone.broken() == {}


async def test_a_part_that_is_sent_again_is_one_message_and_a_person_who_blocks_the_bot_is_marked(
    database: Database, ada: Instance
) -> None:
    async with messaging(database) as world, world.running():
        phone = await linked(world, ada)
        (answer,) = list(await asyncio.to_thread(world.outgoing.of, 1))
        bot = world.gateway.bot
        assert await bot.send(answer) == await bot.send(answer)
        assert list(phone.texts) == [CONNECTED]
        phone.someone.is_blocked = True
        phone.say("/start")
        account = world.accounts.get(Messenger.DISCORD, phone.someone.id)
        assert account is not None

        def is_blocked() -> bool:
            account = world.accounts.get(Messenger.DISCORD, phone.someone.id)
            return account is not None and account.blocked_at is not None

        await until_true(is_blocked, "a mark")
        assert phone.broken() == {}


async def test_a_bot_whose_token_is_wrong_tries_seldom(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_OF_OPERATOR_S", 1.0)
    async with messaging(database) as world:
        token, world.discord.token = world.discord.token, "another"
        async with world.running():
            world.gateway.bot.token = lambda: token
            await pause(1)
            assert not world.discord.gateway.has_session
            world.discord.token = token
            await until_true(lambda: world.discord.gateway.has_session, "a session")
