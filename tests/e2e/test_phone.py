"""A message typed into the phone of a local world is answered by a real agent on a machine of its own."""

import json
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import expect

from tests.support.pages.browser import chromium, watched_page
from tests.support.pages.chat_page import ChatPage
from tests.support.pages.cutting_proxy import cutting_proxy
from tests.support.pages.phone_page import PhonePage
from tests.support.real.commands.command import Command, local_world

pytestmark = [pytest.mark.machines, pytest.mark.xdist_group("chat page"), pytest.mark.turns(240)]

_LATER_S = 240.0
"""Seconds until the first answer: the agent's gateway dials, and its first turn loads what it needs."""


@pytest.fixture(scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    async with local_world(tmp_path_factory.mktemp("home"), vendors=True) as command:
        await command.ok("provision", "ada", "--plan", "light")
        yield command


async def test_ada_connects_her_messenger_and_her_agent_answers_in_it(world: Command) -> None:
    facts = json.loads((world.home / "local" / "world" / "world.json").read_text())
    shown = (await world.ok("local", "status")).stdout
    assert f"phone   {facts['phone_url']}" in shown
    assert f"sockets {facts['connector_url']}/relay" in shown
    async with chromium() as browser, cutting_proxy() as proxy, watched_page(browser, proxy) as watched:
        chat = ChatPage(watched, proxy, facts["users_url"])
        await chat.sign_in()
        await chat.go("messengers")
        await watched.page.get_by_role("button", name="Connect: Telegram").click()
        link = watched.page.get_by_role("link", name="Open Telegram, and press start")
        address = await link.get_attribute("href")
        assert address
        assert address.startswith(f"{facts['phone_url']}#/telegram/")
        phone = PhonePage(watched, facts["phone_url"])
        await watched.page.goto(address)
        await phone.press_start()
        await phone.hears("connected with your agent", _LATER_S)
        await phone.say("good **morning**")
        await phone.hears("YOU SAID: good", _LATER_S)
        await phone.say("RUN: echo proof-$((6*7))-$(hostname)")
        answer = await phone.hears("proof-42-hermes-", _LATER_S)
        await expect(answer).not_to_contain_text("home channel")
        await chat.go("messengers")
        await expect(watched.page.get_by_text("Ada, since")).to_be_visible()
        assert watched.violations == []
        assert watched.errors == []
        assert proxy.foreign() == []
