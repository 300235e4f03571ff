"""The phone of the local world as a person uses it, in a real Chromium."""

from dataclasses import dataclass

from playwright.async_api import Locator, Page, expect

from tests.support.pages.browser import WatchedPage


@dataclass
class PhonePage:
    """The phone in one tab.

    Attributes:
        url: Of the phone, with its last slash.
    """

    watched: WatchedPage
    url: str

    @property
    def page(self) -> Page:
        return self.watched.page

    @property
    def bubbles(self) -> Locator:
        """Messages of both."""
        return self.page.locator("#messages li")

    @property
    def answers(self) -> Locator:
        """Messages of the bot."""
        return self.page.locator("#messages li.bot")

    async def open(self, messenger: str = "telegram", code: str = "") -> None:
        """Open the chat in a messenger, as an address with a code does."""
        await self.page.goto(f"{self.url}#/{messenger}{f'/{code}' if code else ''}")
        await expect(self.page.get_by_role("tab", selected=True)).to_be_visible()

    async def press_start(self) -> None:
        """Send the code that the address brought."""
        await self.page.get_by_role("button", name="Press start").click()

    async def say(self, text: str) -> None:
        """Write a message by the keyboard."""
        field = self.page.get_by_label("Message", exact=True)
        await field.fill(text)
        await field.press("Enter")

    async def hears(self, words: str, timeout_s: float = 30) -> Locator:
        """Wait for a message of the bot with these words; the last of them."""
        answer = self.answers.filter(has_text=words).last
        await expect(answer).to_be_visible(timeout=timeout_s * 1000)
        return answer
