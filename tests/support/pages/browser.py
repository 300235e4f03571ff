"""A real Chromium for tests of pages: Debian's, driven by Playwright, which downloads none."""

import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

from axe_playwright_python.base import AXE_SCRIPT
from playwright.async_api import Browser, ConsoleMessage, Page, StorageState, async_playwright, expect

from tests.support.pages.cutting_proxy import CuttingProxy
from tests.support.suite.prerequisites import require

PHONE, DESK = (390, 844), (1440, 900)
Scheme = Literal["light", "dark"]

_PATIENCE_MS = 30_000
"""For whatever a busy computer takes, a request of the page that is repeated included; nothing waits for it to end."""

expect.set_options(timeout=_PATIENCE_MS)

_AXE = """async () => {
    const {violations} = await axe.run(document, {resultTypes: ["violations"]});
    return violations.filter(({impact}) => ["serious", "critical"].includes(impact))
        .map(({id, nodes}) => `${id}: ${nodes[0].html.slice(0, 200)}`);
}"""


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """A browser without a profile; nothing of it is left afterwards."""
    program = shutil.which("chromium")
    require(program, "chromium")
    async with async_playwright() as playwright:
        # As root Chromium has no sandbox; it sees pages of this test alone.
        browser = await playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            await browser.close()


@dataclass
class WatchedPage:
    """A tab, and what its page did that it must not.

    Attributes:
        violations: Of the Content-Security-Policy, Trusted Types included.
        errors: Exceptions that nothing caught.
    """

    page: Page
    violations: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def watch(self) -> None:
        """Begin to watch."""
        self.page.set_default_timeout(_PATIENCE_MS)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._read)
        self.page.on("dialog", lambda dialog: self.errors.append(f"dialog: {dialog.message}"))

    def _read(self, message: ConsoleMessage) -> None:
        if "Content Security Policy" in message.text or "Trusted" in message.text:
            self.violations.append(message.text)

    async def serious(self) -> Sequence[str]:
        """What axe finds serious or critical on the page as it stands."""
        await self.page.evaluate(AXE_SCRIPT)
        violations: list[str] = await self.page.evaluate(_AXE)
        return violations


@asynccontextmanager
async def watched_page(
    browser: Browser,
    proxy: CuttingProxy,
    size: tuple[int, int] = DESK,
    scheme: Scheme = "light",
    state: StorageState | None = None,
) -> AsyncIterator[WatchedPage]:
    """A tab of a fresh profile that reaches nothing but through the proxy.

    Args:
        size: Pixels in width and height.
        state: Cookies that it begins with.
    """
    context = await browser.new_context(
        proxy={"server": proxy.url, "bypass": "<-loopback>"},
        viewport={"width": size[0], "height": size[1]},
        color_scheme=scheme,
        storage_state=state,
        reduced_motion="reduce",
        locale="en-GB",
        timezone_id="UTC",
    )
    try:
        watched = WatchedPage(await context.new_page())
        watched.watch()
        yield watched
    finally:
        await context.close()
