"""A new user of a simulated world with vendors: from the checkout page to an agent, without a worker and its events."""

import json
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import Browser, expect

from hermesops.base.network.http import own_client
from hermesops.model.ids import user_id_from_alias
from tests.support.pages.browser import chromium, watched_page
from tests.support.pages.chat_page import ChatPage
from tests.support.pages.cutting_proxy import cutting_proxy
from tests.support.real.commands.command import Command, local_world

pytestmark = [pytest.mark.xdist_group("chat page"), pytest.mark.turns(40)]


@pytest.fixture
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    async with local_world(tmp_path_factory.mktemp("home"), driver="sim") as command:
        refused = await command.run("local", "up", "--vendors")
        assert (refused.exit_code, "is up without vendors" in refused.stderr) == (3, True)
        await command.ok("local", "down")
        await command.ok("local", "up", "--vendors")
        yield command


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as opened:
        yield opened


async def test_a_new_user_pays_and_talks_with_an_agent(world: Command, browser: Browser) -> None:
    facts = json.loads((world.home / "local" / "world" / "world.json").read_text())
    async with cutting_proxy() as proxy, watched_page(browser, proxy) as watched:
        chat, page = ChatPage(watched, proxy, facts["users_url"]), watched.page
        await page.goto(f"{chat.url}/hermes-max/chat")
        await page.get_by_label("Or as a new user").fill("grace")
        await page.get_by_label("Or as a new user").press("Enter")
        await expect(page.locator("#user")).to_have_text("you")
        await chat.go("plan")
        await page.get_by_role("button", name="Go to checkout").click()
        await page.get_by_role("button", name="Pay 29.00 EUR").click()
        await page.get_by_role("link", name="Talk to your agent").click(timeout=60_000)
        await expect(page.locator("#state")).to_have_text("running")
        await expect(await chat.ask("hello")).to_contain_text("YOU SAID: hello", timeout=30_000)
        await chat.go("plan")
        await expect(page.get_by_role("heading", name="Payment")).to_be_visible()
        assert watched.violations == []
        assert watched.errors == []
    user = user_id_from_alias("grace")
    shown = (await world.ok("user", "show", user, "--json")).json
    assert (shown["instance"]["status"], shown["paid_by"]) == ("running", shown["subscriptions"][0]["subscription"])
    assert [(row["kind"], row["state"]) for row in shown["requests"]] == [("subscribe", "done")]
    listed = (await world.ok("user", "request", "list", "--user", user, "--json")).json["requests"]
    assert listed == shown["requests"]
    sweep = (await world.ok("billing", "sweep", "--json")).json
    assert (sweep["subscriptions"], sweep["differences"], sweep["problems"]) == (1, [], [])
    async with own_client() as http:
        foreign = await http.get(
            f"{facts['stripe_url']}/v1/subscriptions", headers={"authorization": "Bearer sk_live_x"}
        )
    assert foreign.status_code == 401
