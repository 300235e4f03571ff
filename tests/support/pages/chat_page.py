"""The chat page as a user drives it: in a real Chromium, on the users' API."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import uuid4

from playwright.async_api import Browser, Locator, Page, StorageState, expect

from tests.support.pages.browser import DESK, Scheme, WatchedPage, watched_page
from tests.support.pages.cutting_proxy import CuttingProxy, cutting_proxy

_BACK_ONLINE = "dispatchEvent(new Event('online'))"
_WAKE_MS = 50
_MOST_WAKES = 600


@dataclass
class Browsers:
    """Ada's browsers.

    Attributes:
        url: Of the users' API.
        state: Cookies of a browser that has signed in; ``None`` before the first one did.
    """

    browser: Browser
    url: str
    state: StorageState | None = None

    @asynccontextmanager
    async def open(
        self, *, conversation: str = "", size: tuple[int, int] = DESK, scheme: Scheme = "light"
    ) -> AsyncIterator["ChatPage"]:
        """A browser in a conversation, a new one unless named.

        Afterwards the page has broken no rule of its Content-Security-Policy, has thrown nothing, and has asked no
        other computer for anything.
        """
        async with (
            cutting_proxy() as proxy,
            watched_page(self.browser, proxy, size, scheme, self.state) as watched,
        ):
            chat = ChatPage(watched, proxy, self.url)
            if self.state is None:
                await chat.sign_in()
                self.state = await watched.page.context.storage_state()
            await chat.go(f"chat/{conversation or f't-{uuid4().hex[:12]}'}")
            await expect(chat.message).to_be_visible()
            yield chat
            assert watched.violations == []
            assert watched.errors == []
            assert proxy.foreign() == []


@dataclass
class ChatPage:
    """The page in one tab."""

    watched: WatchedPage
    proxy: CuttingProxy
    url: str

    @property
    def page(self) -> Page:
        return self.watched.page

    @property
    def message(self) -> Locator:
        """Where a message is written."""
        return self.page.get_by_label("Message", exact=True)

    @property
    def answers(self) -> Locator:
        return self.page.locator("li.agent")

    @property
    def working(self) -> Locator:
        return self.page.locator("li.agent p.state")

    @property
    def spoken(self) -> Locator:
        """The live region: what a screen reader says in its own time."""
        return self.page.locator("#announcer")

    async def go(self, place: str) -> None:
        """Open a place of the page, as ``usage`` or ``chat/main``."""
        await self.page.goto(f"{self.url}/hermes-max/chat#/{place}")

    async def sign_in(self) -> None:
        """Sign in at the world's issuer, which the page leads to, and wait until the page is there."""
        await self.page.goto(f"{self.url}/hermes-max/chat")
        await self.page.get_by_role("button", name="Continue as ada").click()
        await expect(self.message).to_be_visible()

    async def forget_files(self) -> None:
        """Empty the browser's cache: the page's files are asked for again."""
        session = await self.page.context.new_cdp_session(self.page)
        await session.send("Network.clearBrowserCache")
        await session.detach()

    async def send(self, text: str) -> None:
        """Write a message, and send it by the keyboard."""
        await self.message.fill(text)
        await self.message.press("Enter")

    async def answered(self, count: int = 1) -> Locator:
        """Wait for the end of so many answers; the last of them."""
        ended = self.page.locator("li.agent:has(> .end)")
        await expect(ended).to_have_count(count)
        return ended.last

    async def answered_whatever_is_cut(self) -> Locator:
        """As ``answered``, with a network that is back at once after each cut."""
        ended = self.page.locator("li.agent:has(> .end)")
        for _ in range(_MOST_WAKES):
            if await ended.count():
                return ended.last
            await self.page.evaluate(_BACK_ONLINE)
            await self.page.wait_for_timeout(_WAKE_MS)
        raise AssertionError("the answer does not end")

    async def ask(self, text: str) -> Locator:
        """Send a message and wait for its answer."""
        before = await self.answers.count()
        await self.send(text)
        return await self.answered(before + 1)

    async def focused(self) -> str:
        """The accessible name, or else the text, of the element that has the focus."""
        name: str = await self.page.evaluate(
            "(({ariaLabel, labels, textContent}) => ariaLabel || labels?.[0]?.textContent || textContent.trim())"
            "(document.activeElement)"
        )
        return name

    async def tab_to(self, name: str, *, most: int = 40, key: str = "Tab") -> None:
        """Press a key until the element of this name has the focus, which everybody must see."""
        for _ in range(most):
            await self.page.keyboard.press(key)
            if await self.focused() == name:
                assert await self.shows_focus(), f"{name}: nobody sees that it has the focus"
                return
        raise AssertionError(f"{most} times {key} lead not to {name}")

    async def shows_focus(self) -> bool:
        """Whether the focused element, or a box around it, has an outline."""
        shows: bool = await self.page.evaluate(
            """() => {
                const outlined = (node) => node && node !== document.body &&
                    (parseFloat(getComputedStyle(node).outlineWidth) >= 2 &&
                     getComputedStyle(node).outlineStyle !== "none" || outlined(node.parentElement));
                return Boolean(outlined(document.activeElement));
            }"""
        )
        return shows
