"""Messengers of users: what is offered, codes that link an account, and Telegram's updates at the door."""

import json
import time
from collections.abc import Mapping
from dataclasses import replace

import httpx
import pytest
import sqlalchemy as sa

from hermesops.errors import UnavailableError
from hermesops.localcloud.vendors import discord, whatsapp
from hermesops.localcloud.vendors.slack import LocalSlack
from hermesops.model.messaging.message import Update
from hermesops.model.messaging.messenger import Messenger
from hermesops.store.message_rows.accounts import MessengerAccounts
from hermesops.store.message_rows.incoming import IncomingMessages
from hermesops.store.registry.schema.messaging_tables import messenger_chats
from hermesops.users.messaging.inbound.door import DiscordDoor, SlackDoor, TelegramDoor, WhatsAppDoor
from hermesops.users.messaging.inbound.links import MessengerLinks
from hermesops.users.messaging.messengers.whatsapp.read import Reader, verify_token
from tests.support.real.stores.registries import KEYS
from tests.support.users.api import Client, UsersApi

pytestmark = pytest.mark.turns(20)

SECRET = "canary-webhook-secret"  # noqa: S105 - made up
TELEGRAM = Messenger.TELEGRAM
SLACK = LocalSlack(secret=SECRET)
DISCORD = discord.LocalDiscord()
WHATSAPP = whatsapp.LocalWhatsApp(secret=SECRET)


@pytest.fixture(autouse=True)
def bot(api: UsersApi) -> MessengerAccounts:
    """Offer a bot, as a process with its secrets does."""
    accounts = MessengerAccounts(api.database, KEYS)
    door = TelegramDoor(lambda: (SECRET,), IncomingMessages(api.database, KEYS).add)
    slack_door = SlackDoor(lambda: (SLACK.secret,), IncomingMessages(api.database, KEYS).add)
    receive = IncomingMessages(api.database, KEYS).add
    whatsapp_door = WhatsAppDoor(lambda: (WHATSAPP.secret,), receive, Reader(whatsapp.PHONE, b"k" * 32))
    links = MessengerLinks(accounts, {TELEGRAM: "our_bot"})
    for process in api.processes:
        object.__setattr__(process.parts, "messengers", links)
        object.__setattr__(process.parts, "telegram", door)
        object.__setattr__(process.parts, "slack", slack_door)
        object.__setattr__(process.parts, "whatsapp", whatsapp_door)
        object.__setattr__(process.parts, "discord", DiscordDoor(DISCORD.public_key, receive))
    return accounts


def update(number: int, text: str, person: int = 111) -> bytes:
    author = {"id": person, "is_bot": False, "first_name": "Ada"}
    message = {"message_id": 1, "from": author, "chat": {"id": person, "type": "private"}, "text": text}
    return json.dumps({"update_id": number, "message": message}).encode()


async def sent(client: Client, body: bytes, secret: str = SECRET) -> int:
    headers = {"x-telegram-bot-api-secret-token": secret, "content-type": "application/json"}
    response = await client.http.post("/webhooks/telegram", content=body, headers=headers)
    return response.status_code


async def test_a_code_links_and_the_link_is_shown_and_ended(api: UsersApi, ada: Client, bot: MessengerAccounts) -> None:
    assert (await ada.ask("GET", "/messengers")).json() == [
        {"messenger": "telegram", "bot": "our_bot", "account": None, "linked_at": None, "blocked": False}
    ]
    link = (await ada.ask("POST", "/messengers/telegram/link-code")).json()
    assert link["text"] == f"/start {link['code']}"
    assert link["url"] == f"https://t.me/our_bot?start={link['code']}"
    # The API's role of the database may make codes and may not use them up.
    owner = MessengerAccounts(api.all_rows, KEYS)
    assert owner.link(link["code"], TELEGRAM, "111", "111", "Ada") == api.ada.user_id
    (shown,) = (await ada.ask("GET", "/messengers")).json()
    assert (shown["account"], shown["blocked"]) == ("Ada", False)
    assert (await ada.ask("DELETE", "/messengers/telegram")).status_code == 204
    assert (await ada.ask("DELETE", "/messengers/telegram")).status_code == 404
    assert bot.get(TELEGRAM, "111") is None


async def test_a_messenger_without_a_bot_is_refused(ada: Client) -> None:
    refused = await ada.ask("POST", "/messengers/slack/link-code")
    assert (refused.status_code, refused.json()["detail"]) == (409, "slack is not offered here")
    assert (await ada.ask("POST", "/messengers/icq/link-code")).status_code == 422


async def test_updates_are_kept_once_and_only_telegrams(api: UsersApi, ada: Client) -> None:
    incoming, rings = IncomingMessages(api.all_rows, KEYS), list[int]()
    object.__setattr__(api.process.parts, "heard", lambda: rings.append(len(incoming.received())))
    for _ in range(3):
        assert await sent(ada, update(1, "hello")) == 204
    assert await sent(ada, update(2, "bye")) == 204
    for secret in ("", "x", SECRET[:-1]):
        assert await sent(ada, update(3, "forged"), secret) == 401
    assert rings == [1, 1, 1, 2], "others hear of a message once it is a row, and of no forged one"
    assert await sent(ada, b"not json") == 204, "signed, and no repetition makes it better"
    assert [message.text for message in incoming.received()] == ["hello", "bye"]


@pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)
async def test_a_button_of_telegram_is_answered_with_its_update(api: UsersApi, ada: Client) -> None:
    person = {"id": 111, "is_bot": False, "first_name": "Ada"}
    chat = {"message_id": 1, "chat": {"id": 111, "type": "private"}}
    press = {"id": "4382", "from": person, "message": chat, "data": "/approve"}
    headers = {"x-telegram-bot-api-secret-token": SECRET}
    answer = await ada.http.post("/webhooks/telegram", json={"update_id": 7, "callback_query": press}, headers=headers)
    assert answer.json() == {"method": "answerCallbackQuery", "callback_query_id": "4382"}
    assert [each.text for each in IncomingMessages(api.all_rows, KEYS).received()] == ["/approve"]


@pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)
async def test_an_update_while_the_database_is_away_is_to_be_sent_again(api: UsersApi, ada: Client) -> None:
    door = api.process.parts.telegram
    assert door is not None

    def away(_: object) -> bool:
        raise UnavailableError("the database does not answer")

    object.__setattr__(api.process.parts, "telegram", replace(door, receive=away))
    assert await sent(ada, update(1, "hello")) == 503


async def test_events_of_slack_are_kept_once_and_only_recent_ones_that_slack_signed(api: UsersApi, ada: Client) -> None:
    incoming = IncomingMessages(api.all_rows, KEYS)
    message = json.dumps(SLACK.message("111", "hello")).encode()

    async def posted(body: bytes, headers: Mapping[str, str]) -> httpx.Response:
        return await ada.http.post(
            "/webhooks/slack", content=body, headers={"content-type": "application/json", **headers}
        )

    for attempt in ("", "1", "2"):
        retry = {"x-slack-retry-num": attempt} if attempt else {}
        assert (await posted(message, {**SLACK.signed(message), **retry})).status_code == 204
    for body, headers in (
        (message, {}),
        (message, SLACK.signed(message, time.time() - 400)),
        (message, SLACK.signed(message, time.time() + 400)),
        (message + b" ", SLACK.signed(message)),
    ):
        assert (await posted(body, headers)).status_code == 401
    question = b'{"type": "url_verification", "challenge": "abc"}'
    answer = await posted(question, SLACK.signed(question))
    assert (answer.status_code, answer.text, answer.headers["content-type"]) == (
        200,
        "abc",
        "text/plain; charset=utf-8",
    )
    assert [each.text for each in incoming.received()] == ["hello"]


@pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)
async def test_a_button_of_slack_is_kept_once_if_slack_signed_it(api: UsersApi, ada: Client) -> None:
    body, form = SLACK.pressing("111", "/approve"), {"content-type": "application/x-www-form-urlencoded"}

    async def status(content: bytes, headers: Mapping[str, str]) -> int:
        answer = await ada.http.post("/webhooks/slack", content=content, headers={**form, **headers})
        return answer.status_code

    assert [await status(body, SLACK.signed(body)) for _ in range(2)] == [200, 200]
    assert await status(body.replace(b"approve", b"deny"), SLACK.signed(body)) == 401
    assert await status(body, SLACK.signed(body, time.time() - 400)) == 401
    assert [each.text for each in IncomingMessages(api.all_rows, KEYS).received()] == ["/approve"]


@pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)
async def test_slack_sends_an_event_again_until_it_is_a_row(api: UsersApi, ada: Client) -> None:
    assert await SLACK.verify(str(ada.http.base_url.join("/webhooks/slack")))
    door, failures = api.process.parts.slack, iter([True, True])
    assert door is not None

    def receive(update: Update) -> bool:
        if next(failures, False):
            raise UnavailableError("the database does not answer")
        return door.receive(update)

    object.__setattr__(api.process.parts, "slack", replace(door, receive=receive))
    event = SLACK.message("222", "hello")
    assert await SLACK.deliver(event, waits_s=(0, 0, 0)) == 3
    assert await SLACK.deliver(event, waits_s=()) == 1
    assert [each.text for each in IncomingMessages(api.all_rows, KEYS).received()] == ["hello"]


async def test_reports_of_whatsapp_are_kept_once_with_their_addresses_sealed(api: UsersApi, ada: Client) -> None:
    first, second = WHATSAPP.message("15550000111", "one"), WHATSAPP.message("15550000222", "two")
    both = json.dumps(whatsapp.merged(first, second)).encode()

    async def posted(body: bytes, headers: Mapping[str, str]) -> int:
        headers = {"content-type": "application/json", **headers}
        return (await ada.http.post("/webhooks/whatsapp", content=body, headers=headers)).status_code

    for body in (both, json.dumps(dict(first)).encode(), both):
        assert await posted(body, WHATSAPP.signed(body)) == 200
    large = both + b" " * (2 << 20)
    assert await posted(large, WHATSAPP.signed(large)) == 200, "larger than other bodies may be"
    for headers in ({}, WHATSAPP.signed(b"other"), {"x-hub-signature-256": f"sha256={SECRET}"}):
        assert await posted(both, headers) == 401
    rows = IncomingMessages(api.all_rows, KEYS).received()
    assert [row.text for row in rows] == ["one", "two"]
    with api.all_rows.reading() as connection:
        chats = connection.execute(sa.select(messenger_chats).order_by(messenger_chats.c.vendor_chat)).all()
    assert [chat.vendor_chat for chat in chats] == sorted(row.vendor_chat for row in rows)
    assert "15550000" not in repr(chats) + repr([(row.account, row.vendor_chat) for row in rows])


@pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)
async def test_the_address_is_ours_where_whatsapp_asks_by_our_token(api: UsersApi, ada: Client) -> None:
    assert api.process.parts.whatsapp is not None
    query = {"hub.mode": "subscribe", "hub.challenge": "1158201444", "hub.verify_token": verify_token(SECRET)}
    answer = await ada.http.get("/webhooks/whatsapp", params=query)
    assert (answer.status_code, answer.text, answer.headers["content-type"]) == (
        200,
        "1158201444",
        "text/plain; charset=utf-8",
    )
    for token in ("", SECRET, "x"):
        refused = await ada.http.get("/webhooks/whatsapp", params={**query, "hub.verify_token": token})
        assert (refused.status_code, "1158201444" in refused.text) == (401, False)


async def test_commands_of_discord_are_kept_once_and_forged_ones_refused(api: UsersApi, ada: Client) -> None:
    command = json.dumps(dict(DISCORD.command("111111", "link", "ABCDEFGH23456789"))).encode()

    async def posted(body: bytes, headers: Mapping[str, str]) -> httpx.Response:
        headers = {"content-type": "application/json", **headers}
        return await ada.http.post("/webhooks/discord", content=body, headers=headers)

    for _ in range(2):
        answer = await posted(command, DISCORD.signed(command))
        assert (answer.status_code, answer.json()["data"]["content"]) == (200, "Received.")
    for headers in (
        {},
        DISCORD.signed(b"other"),
        DISCORD.signed(command, time.time() - 400),
        {**DISCORD.signed(command), "x-signature-ed25519": "0" * 128},
    ):
        assert (await posted(command, headers)).status_code == 401
    assert [each.text for each in IncomingMessages(api.all_rows, KEYS).received()] == ["/link ABCDEFGH23456789"]


@pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)
async def test_discord_takes_an_address_that_answers_it_and_refuses_forgers(api: UsersApi, ada: Client) -> None:
    assert api.process.parts.discord is not None
    assert await DISCORD._is_ours(str(ada.http.base_url.join("/webhooks/discord")))
    assert not await DISCORD._is_ours(str(ada.http.base_url.join("/webhooks/telegram")))
