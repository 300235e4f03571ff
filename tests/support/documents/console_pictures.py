"""Makes the pictures of the operators' console: the real pages in Chromium, over a world with a halted rollout."""

from collections.abc import Mapping
from pathlib import Path

from playwright.async_api import expect

from hermesops.app import Container
from tests.support.pages.browser import DESK, PHONE, Scheme, chromium
from tests.support.pages.console import served_console

NAMES: Mapping[str, tuple[tuple[int, int], Scheme]] = {
    "console-fleet": (DESK, "light"),
    "console-instance": (PHONE, "dark"),
    "console-rollout": (DESK, "light"),
}
"""Pictures, each with its width and height, and its colours."""


async def draw(container: Container, folder: Path) -> None:
    """Write the pictures of a world whose newest rollout is shown, with the first agent that failed in it."""
    rollout = container.rollouts.find("")
    failed = next(target for target in container.rollouts.targets(rollout.id) if target.state.has_failed)
    paths = {
        "console-fleet": ("", "Fleet"),
        "console-instance": (f"instances/{failed.id}", failed.facts.user),
        "console-rollout": (f"rollouts/{rollout.id}", f"Rollout {rollout.id} of {rollout.release}"),
    }
    async with chromium() as browser, served_console(container) as url:
        context = await browser.new_context()
        page = await context.new_page()
        await page.goto(url)
        origin = page.url.partition("/console/")[0]
        for name, (path, title) in paths.items():
            (width, height), scheme = NAMES[name]
            await page.set_viewport_size({"width": width, "height": height})
            await page.emulate_media(color_scheme=scheme)
            await page.goto(f"{origin}/console/{path}")
            await expect(page.get_by_role("heading", name=title, exact=True)).to_be_visible()
            if name == "console-instance":
                await expect(page.locator("#report").get_by_role("heading", name="Alerts")).to_be_visible()
            await page.screenshot(path=folder / f"{name}.png")
        await context.close()
