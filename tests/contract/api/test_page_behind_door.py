"""The page over HTTPS, as a platform serves it: sites of a local world, which are HTTP, are reached from it."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from hermesops.access.secrets.catalog import MESSAGES_KEY
from tests.support.pages.browser import WatchedPage, chromium
from tests.support.real import edge
from tests.support.real.monitoring.platform_host import programs
from tests.support.real.stores.registries import TurnedClock
from tests.support.suite.prerequisites import require
from tests.support.users.api import users_api
from tests.support.users.processes import NAME, of_api, of_connections, running

pytestmark = [pytest.mark.xdist_group("chat page"), pytest.mark.turns(20)]

OF_BOTH = {"hermes_platform_edge_has_connections": True}


@pytest.fixture
async def page(tmp_path: Path, clock: TurnedClock) -> AsyncIterator[Page]:
    """Signed in at the door, before both processes."""
    clock.timestamp = datetime.now(UTC)
    root, folder = programs(), tmp_path / "host"
    require(root, "Debian's programs")
    assert root
    folder.mkdir()
    async with AsyncExitStack() as stack:
        api = await stack.enter_async_context(users_api(tmp_path, f"sqlite:///{tmp_path}/registry.db", clock))
        door = stack.enter_context(edge.running(folder, root, [folder / "api.sock"], OF_BOTH))
        api.issuer._pages = door.url
        own = of_api(folder / "of-api", api, door.url)
        ring = (folder / "of-api" / NAME / "keys" / MESSAGES_KEY.name).read_text()
        connections = of_connections(folder / "of-connections", api, door.url, f"{door.url}/mcp", ring)
        for env, words, name in ((own, "serve", "api"), (connections, "connections", "connections")):
            await stack.enter_async_context(
                running(env, ["api", words], folder / f"{name}.sock", folder / f"{name}.log")
            )
        browser = await stack.enter_async_context(chromium())
        # The authority of a local world is no browser's.
        context = await browser.new_context(ignore_https_errors=True, locale="en-GB")
        watched = WatchedPage(await context.new_page())
        watched.watch()
        await watched.page.goto(f"{door.url}/hermes-max/chat")
        await watched.page.get_by_role("button", name="Continue as ada").click()
        await expect(watched.page.get_by_label("Message", exact=True)).to_be_visible()
        yield watched.page
        assert (watched.violations, watched.errors) == ([], [])


async def test_a_user_of_a_local_platform_connects_a_service(page: Page) -> None:
    await page.goto(f"{page.url.partition('#')[0]}#/connections")
    await page.get_by_role("button", name="Connect: Gmail", exact=True).click()
    await page.get_by_role("button", name="Agree").click()
    await expect(page.locator("li", has_text="Gmail").locator(".badge")).to_have_text("connected")
