"""The phone in a real Chromium: over the stand-in of Telegram, and a connector with a scripted gateway behind it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from playwright.async_api import Browser, expect

from hermesops.localcloud.vendors.phone.chats import PERSON
from hermesops.model.fleet.instance import Instance
from hermesops.store.registry.database import Database
from hermesops.users.messaging.inbound.routing import CONNECTED
from tests.support.pages.browser import DESK, PHONE, Scheme, chromium, watched_page
from tests.support.pages.cutting_proxy import cutting_proxy
from tests.support.pages.phone_page import PhonePage
from tests.support.users.messaging import Messaging, dialled, messaging

TITLES = {"slack": "Slack", "whatsapp": "WhatsApp", "discord": "Discord"}

pytestmark = [
    pytest.mark.turns(45),
    pytest.mark.xdist_group("chat page"),
    pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True),
]


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as opened:
        yield opened


@pytest.fixture
async def world(database: Database) -> AsyncIterator[Messaging]:
    async with messaging(database) as world, world.running():
        yield world


@asynccontextmanager
async def opened(
    world: Messaging, browser: Browser, code: str = "", size: tuple[int, int] = DESK, scheme: Scheme = "light"
) -> AsyncIterator[PhonePage]:
    """The phone with the chat at Telegram; the page has broken no rule when it closes."""
    async with cutting_proxy() as proxy, watched_page(browser, proxy, size, scheme) as watched:
        phone = PhonePage(watched, world.phone_url)
        await phone.open(code=code)
        yield phone
        assert watched.violations == []
        assert watched.errors == []
        assert proxy.foreign() == []


async def bot(world: Messaging, method: str, **body: object) -> int:
    """Call the Bot API about the person's chat; returns the id of the message."""
    async with httpx.AsyncClient(trust_env=False) as http:
        url = f"{world.telegram_url}/bot{world.telegram.token}/{method}"
        answer = (await http.post(url, json={"chat_id": PERSON, **body})).raise_for_status().json()["result"]
    return int(answer["message_id"]) if isinstance(answer, dict) else 0


async def test_a_person_connects_and_gets_answers_with_the_keyboard_alone(
    world: Messaging, browser: Browser, ada: Instance
) -> None:
    code = world.accounts.add_code(ada.user_id)
    async with dialled(world, ada) as gateway, opened(world, browser, code) as phone:
        await expect(phone.page.get_by_label("Code from the chat page")).to_have_value(code)
        await phone.page.get_by_label("Code from the chat page").press("Enter")
        await phone.hears(CONNECTED)
        assert code not in phone.page.url
        await expect(phone.page.get_by_label("Message", exact=True)).to_be_focused()
        await phone.page.keyboard.type("hello")
        await phone.page.keyboard.press("Enter")
        frame = await gateway.next("inbound")
        assert frame["event"]["text"] == "hello"
        await gateway.send(f"tg.{PERSON}", "hi, Ada", reply_to=frame["event"]["message_id"])
        await phone.hears("hi, Ada")
        await expect(phone.bubbles).to_have_text(
            [r"You: /start " + code, f"Bot: {CONNECTED}", "You: hello", "Bot: hi, Ada"]
        )
        assert not world.telegram.broken


@pytest.mark.parametrize(("messenger", "text"), [("slack", "link "), ("whatsapp", "link "), ("discord", "link ")])
async def test_other_messengers_are_tabs_with_formats_of_their_own(
    world: Messaging, browser: Browser, ada: Instance, messenger: str, text: str
) -> None:
    code = world.accounts.add_code(ada.user_id)
    async with dialled(world, ada) as gateway, opened(world, browser) as phone:
        await phone.open(messenger, code)
        await expect(phone.page.get_by_role("tab", selected=True)).to_have_text(TITLES[messenger])
        await phone.press_start()
        await phone.hears(CONNECTED)
        await phone.say("hello *you*")
        frame = await gateway.next("inbound")
        answer = "**bold** and `x < y` & [here](https://example.org/a)"
        await gateway.send(frame["event"]["source"]["chat_id"], answer, reply_to=frame["event"]["message_id"])
        bubble = await phone.hears("bold and x < y & here")
        await expect(bubble.locator("strong")).to_have_text("bold")
        await expect(bubble.locator("code")).to_have_text("x < y")
        await expect(phone.bubbles.first).to_have_text(f"You: {text}{code}")
        if messenger != "slack":
            await gateway.send(frame["event"]["source"]["chat_id"], "Run it? /approve or /deny", request="prompt")
            await (await phone.hears("Run it?")).get_by_role("button", name="Approve").click()
            assert (await gateway.next("inbound"))["event"]["text"] == "/approve"
        await expect(phone.page.get_by_role("button", name="Block the bot")).to_be_visible(visible=messenger != "slack")
        assert await phone.watched.serious() == []
    assert not world.slack.broken
    assert not world.whatsapp.broken
    assert not world.discord.broken


async def test_formats_edits_typing_and_buttons_are_shown(world: Messaging, browser: Browser) -> None:
    async with opened(world, browser) as phone:
        await phone.say("hello")
        await phone.hears("not connected with an agent")
        text = "😀 bold, code, x = 1 and <b>no</b> markup"
        entities = [
            {"type": "bold", "offset": 3, "length": 4},
            {"type": "code", "offset": 9, "length": 4},
            {"type": "pre", "offset": 15, "length": 5},
            {"type": "text_link", "offset": 25, "length": 9, "url": "javascript:alert(1)"},
            {"type": "text_link", "offset": 35, "length": 6, "url": "https://example.org/a"},
        ]
        keyboard = {
            "inline_keyboard": [[{"text": "Allow once", "callback_data": "a"}, {"text": "Deny", "callback_data": "d"}]]
        }
        id_ = await bot(world, "sendMessage", text=text, entities=entities, reply_markup=keyboard)
        answer = await phone.hears("bold")
        await expect(answer.locator("strong")).to_have_text("bold")
        await expect(answer.locator("code:not(.pre)")).to_have_text("code")
        await expect(answer.locator("code.pre")).to_have_text("x = 1")
        await expect(answer.get_by_role("link")).to_have_attribute("href", "https://example.org/a")
        assert await answer.locator("b").count() == 0
        await bot(world, "sendChatAction", action="typing")
        await expect(phone.page.get_by_text("typing …")).to_be_visible()
        await expect(phone.page.get_by_text("typing …")).to_be_hidden(timeout=15_000)
        await phone.page.get_by_role("button", name="Deny").click()
        await bot(world, "editMessageText", message_id=id_, text="Denied.")
        await expect(phone.answers.last).to_have_text("Bot: Denied.edited")


async def test_a_bot_that_is_blocked_writes_nothing(world: Messaging, browser: Browser, ada: Instance) -> None:
    async with opened(world, browser, world.accounts.add_code(ada.user_id)) as phone:
        await phone.press_start()
        await phone.hears(CONNECTED)
        await phone.page.get_by_role("button", name="Block the bot").click()
        await expect(phone.page.get_by_role("button", name="Unblock the bot")).to_have_attribute("aria-pressed", "true")
        async with httpx.AsyncClient(trust_env=False) as http:
            url = f"{world.telegram_url}/bot{world.telegram.token}/sendMessage"
            refused = await http.post(url, json={"chat_id": PERSON, "text": "psst"})
        assert refused.status_code == 403
        await phone.page.get_by_role("button", name="Unblock the bot").click()
        await expect(phone.page.get_by_role("button", name="Block the bot")).to_be_visible()


@pytest.mark.parametrize(("size", "scheme"), [(PHONE, "light"), (PHONE, "dark"), (DESK, "dark")])
async def test_it_is_readable(world: Messaging, browser: Browser, size: tuple[int, int], scheme: Scheme) -> None:
    async with opened(world, browser, size=size, scheme=scheme) as phone:
        await phone.say("hello " + "x" * 200)
        await phone.hears("not connected with an agent")
        assert await phone.watched.serious() == []
        wide = await phone.page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
        assert not wide


async def test_pages_of_other_origins_and_other_names_of_this_computer_do_nothing(world: Messaging) -> None:
    say, chat = f"{world.phone_url}messengers/telegram/say", f"{world.phone_url}messengers/telegram"
    own = world.phone_url.removesuffix("/phone/")
    async with httpx.AsyncClient(trust_env=False) as http:
        for origin in ({}, {"origin": "https://elsewhere.example"}, {"origin": "null"}):
            assert (await http.post(say, json={"text": "x"}, headers=origin)).status_code == 403
        assert (await http.get(chat, headers={"host": "elsewhere.example"})).status_code == 403
        assert (await http.get(world.phone_url, headers={"host": "elsewhere.example"})).status_code == 403
        assert (await http.post(say, json={"text": "  "}, headers={"origin": own})).status_code == 400
        assert (await http.post(say, json={"text": "x"}, headers={"origin": own})).status_code == 202
        assert (await http.post(say.replace("say", "pay"), json={}, headers={"origin": own})).status_code == 400
        assert (await http.get(f"{world.phone_url}assets/index.html")).status_code == 404
    assert [entry.text for entry in world.telegram.chat(PERSON).entries if not entry.is_of_bot] == ["x"]
