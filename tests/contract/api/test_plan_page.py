"""The plan on the chat page, in a real Chromium: bought at the checkout page, shown with its invoices, and ended."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from playwright.async_api import Route, expect

from hermesops.base.waiting import Pending, cancel, pause, until
from hermesops.model.billing.metering import EntryState
from hermesops.store.registry import Registry
from tests.support.billing.plan_world import PlanWorld, plan_world
from tests.support.pages.browser import PHONE, chromium
from tests.support.pages.chat_page import ChatPage
from tests.support.pages.scripted_chat import ScriptedChat, scripted_chat
from tests.support.real.stores.registries import TurnedClock

pytestmark = [pytest.mark.xdist_group("chat page"), pytest.mark.turns(60)]


@pytest.fixture
async def scripted(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ScriptedChat]:
    async with chromium() as browser, scripted_chat(tmp_path_factory.mktemp("chat"), browser) as chat:
        yield chat


@pytest.fixture
async def world(scripted: ScriptedChat) -> AsyncIterator[PlanWorld]:
    """The work of workers for users, beside the API; no event of Stripe's comes."""
    relay = scripted.api.relay
    clock, registry = relay.clock, relay.registry
    async with plan_world(registry, registry._database, lambda: clock().timestamp()) as world:
        world.user = scripted.api.ada.user_id
        working = asyncio.ensure_future(work(world, registry, clock))
        yield world
        await cancel(working)


async def work(world: PlanWorld, registry: Registry, clock: TurnedClock) -> None:
    while True:
        await world.carrier().run()
        for user in registry.billing.due_users():
            await world.agents().settle(user)
        await world.statements().run()
        await world.metering().run()
        clock.turn(1)
        await pause(0.1)


@pytest.fixture
async def chat(scripted: ScriptedChat) -> AsyncIterator[ChatPage]:
    async with scripted.browsers.open() as page:
        yield page


async def test_a_plan_is_bought_and_ended_with_the_keyboard_alone(world: PlanWorld, chat: ChatPage) -> None:
    page = chat.page
    await chat.go("plan")
    await expect(page.get_by_role("heading", name="Choose a plan")).to_be_visible()
    assert await chat.watched.serious() == []
    await page.get_by_role("radio", name="light: 40 GB").focus()
    await chat.tab_to("Go to checkout")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Checkout")).to_be_visible()
    await page.get_by_role("button", name="Pay 29.00 EUR").press("Enter")
    await expect(
        page.get_by_role("heading", name="No agent yet").or_(page.get_by_role("heading", name="light"))
    ).to_be_visible()
    await expect(page.get_by_role("heading", name="Payment")).to_be_visible()
    await expect(page.get_by_text(re.compile(r"€29\.[01]0 on"))).to_be_visible()
    await page.get_by_role("group").locator("summary").last.press("Enter")
    await expect(page.get_by_text("Hermes agent, plan light, one month: €29.00").last).to_be_visible()
    reported = world.registry.metering.count
    await until(lambda: _is_reported(reported()), what="the agent's day at Stripe", timeout_s=20, every_s=0.1)
    await page.reload()
    await expect(page.get_by_role("heading", name="Usage")).to_be_visible()
    await expect(page.get_by_text("Days of your agent")).to_be_visible()
    await page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    assert await chat.watched.serious() == []
    await page.get_by_role("button", name="End the plan").press("Enter")
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_role("button", name="Keep the plan")).to_be_focused()
    assert await chat.watched.serious() == []
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    await page.get_by_role("button", name="End the plan").press("Enter")
    await dialog.get_by_role("button", name="End the plan").press("Enter")
    await expect(page.get_by_text("Ends", exact=True)).to_be_visible()
    await expect(chat.spoken).to_contain_text("Your plan ends with the period that is paid.")
    [subscription] = world.stripe.books.subscriptions.values()
    assert subscription["cancel_at_period_end"] is True


async def _is_reported(counts: Mapping[EntryState, int]) -> bool | Pending[bool]:
    return True if counts.get(EntryState.REPORTED) else Pending(str(counts))


async def test_whoever_comes_back_without_paying_goes_on_or_chooses_anew(world: PlanWorld, chat: ChatPage) -> None:
    page = chat.page
    await chat.go("plan")
    await page.get_by_role("button", name="Go to checkout").click()
    await expect(page.get_by_role("heading", name="Checkout")).to_be_visible()
    await chat.go("plan")
    await page.get_by_role("link", name="Go on to the checkout page").click()
    await expect(page.get_by_role("button", name="Pay 29.00 EUR")).to_be_visible()
    [session] = world.stripe.books.sessions
    world.stripe.books.close_checkout(session)
    await chat.go("plan")
    await expect(page.get_by_text("The checkout page was closed before anything was paid.")).to_be_visible()


PAID: Mapping[str, Any] = {
    "status": "active",
    "plan": "light",
    "subscribing": None,
    "metered": [],
    "invoices": [],
    "next_charge": None,
}


async def test_an_agent_that_starts_between_two_looks_is_told_and_can_be_talked_to(chat: ChatPage) -> None:
    """The look finds an agent that is being made; the page that is then shown has one that runs."""
    states = ["", "provisioning", "running"]

    async def instance(route: Route) -> None:
        state = states.pop(0) if len(states) > 1 else states[0]
        document = {"status": state, "plan": "light", "since": None, "region": "hel1", "heartbeat_age_s": 1}
        await route.fulfill(json=document if state else {}, status=200 if state else 404)

    async def plan(route: Route) -> None:
        await route.fulfill(json=PAID)

    await chat.page.route("**/api/hermes/plan", plan)
    await expect(chat.message).to_be_visible()
    await chat.page.route("**/api/hermes/instance", instance)
    await chat.go("plan")
    await expect(chat.spoken).to_have_text("Your agent is ready.")
    await chat.page.get_by_role("link", name="Talk to your agent").click()
    await expect(chat.message).to_be_visible()


async def test_a_plan_that_was_just_paid_is_not_sold_again_before_its_statement_is_there(chat: ChatPage) -> None:
    """The request is done and the agent is made before a worker has read the statement at Stripe."""
    states, bought = ["provisioning", "running"], {**PAID, "status": "none", "subscribing": {"state": "done"}}
    plans: list[Mapping[str, Any]] = [bought, bought, PAID]

    async def instance(route: Route) -> None:
        document = {"status": states[0], "plan": "light", "since": None, "region": "hel1", "heartbeat_age_s": 1}
        await route.fulfill(json=document)

    async def plan(route: Route) -> None:
        await route.fulfill(json=plans[0])

    await expect(chat.message).to_be_visible()
    await chat.page.route("**/api/hermes/plan", plan)
    await chat.page.route("**/api/hermes/instance", instance)
    await chat.go("plan")
    await expect(chat.page.get_by_text("Your plan is paid.")).to_be_visible()
    await expect(chat.page.get_by_role("button", name="Go to checkout")).to_have_count(0)
    states.pop(0)
    await expect(chat.spoken).to_have_text("Your agent is ready.")
    del plans[:2]
    await expect(chat.page.get_by_role("button", name="End the plan")).to_be_visible()
    await chat.page.get_by_role("link", name="Talk to your agent").click()
