"""The chat page of a simulated world, as ``local up`` serves it: sign in, talk, change settings."""

import json
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import expect

from tests.support.pages.browser import PHONE, chromium
from tests.support.pages.chat_page import Browsers
from tests.support.real.commands.command import local_world

pytestmark = pytest.mark.xdist_group("chat page")


@pytest.fixture(scope="module")
async def browsers(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browsers]:
    home = tmp_path_factory.mktemp("home")
    async with chromium() as browser, local_world(home, driver="sim") as command:
        await command.ok("provision", "ada", "--plan", "light")
        world = json.loads((home / "local" / "world" / "world.json").read_text())
        yield Browsers(browser, world["users_url"])


async def test_ada_signs_in_and_talks_with_her_agent(browsers: Browsers) -> None:
    async with browsers.open() as chat:
        await expect(await chat.ask("hello **agent**")).to_contain_text("YOU SAID: hello agent")
        await chat.send("RUN: rm -rf /srv/photos")
        await chat.page.get_by_role("button", name="Deny").click()
        await expect(await chat.answered(2)).to_contain_text("TOOL SAID: BLOCKED: rm -rf /srv/photos")
        await expect(chat.page.get_by_role("link", name="hello")).to_have_attribute("aria-current", "page")


async def test_settings_that_changed_meanwhile_are_not_overwritten(browsers: Browsers) -> None:
    async with browsers.open() as chat, browsers.open(size=PHONE) as other:
        for device in (chat, other):
            await device.go("settings")
            await expect(device.page.get_by_label("Personality")).to_be_visible()
        await other.page.get_by_label("Personality").fill("Calm and short.")
        await other.page.get_by_role("button", name="Save", exact=True).click()
        await expect(other.spoken).to_have_text("Your agent has the new settings.")
        await chat.page.get_by_label("Personality").fill("Loud.")
        await chat.page.get_by_role("button", name="Save", exact=True).click()
        await chat.page.get_by_role("button", name="Show the new values").click()
        await expect(chat.page.get_by_label("Personality")).to_have_value("Calm and short.")


async def test_ada_connects_a_service_at_the_worlds_composio(browsers: Browsers) -> None:
    async with browsers.open() as chat:
        await chat.go("connections")
        await chat.page.get_by_role("button", name="Connect: Notion", exact=True).click()
        await chat.page.get_by_role("button", name="Agree").click()
        notion = chat.page.locator("li", has_text="Notion")
        await expect(notion.locator(".badge")).to_have_text("connected")
        await chat.page.get_by_role("button", name="Disconnect: Notion").click()
        await expect(chat.page.get_by_role("button", name="Connect: Notion", exact=True)).to_be_visible()
