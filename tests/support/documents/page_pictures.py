"""Makes the pictures of the chat page: the real page in Chromium, over the API, with an agent that follows a script."""

import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

from playwright.async_api import expect

from tests.support.pages.browser import DESK, PHONE, Scheme, chromium
from tests.support.pages.chat_page import ChatPage
from tests.support.pages.scripted_chat import ScriptedChat, scripted_chat

NAMES: Mapping[str, tuple[tuple[int, int], Scheme]] = {
    "chat-page-light": (DESK, "light"),
    "chat-page-dark": (PHONE, "dark"),
}
"""Pictures, each with its width and height, and its colours."""

_NOW = datetime(2026, 1, 1, 12, 4, tzinfo=UTC)

_TITLES = {
    "rent": "Letter to the landlord",
    "charles": "A birthday present for Charles",
    "garden": "The garden this week",
}
_QUESTION = "What is to do in the garden this week? Look into my notes of last year first."
_PLAN = """Your notes say that pigeons took half of the beans last year, so I put the nets first.

| bed | crop | sow by | seeds |
|:--|:--|:--|--:|
| north | broad beans, *under a net* | 4 March | 120 g |
| middle | carrots | 18 March | 15 g |
| south | tomatoes, under glass | 1 April | 3 g |

1. **Thursday**: turn the compost, before the frost that is [forecast](https://weather.example/bonn).
2. **Saturday**: order potatoes: *Annabelle* early, *Bamberger Hörnchen* late.

```python
def nights_of_frost(forecast):
    return [day for day in forecast if day.lowest < 0]
```
"""


async def draw(folder: Path) -> None:
    """Write the pictures into a folder."""
    with tempfile.TemporaryDirectory(prefix="hermesops-page") as place:
        async with chromium() as browser, scripted_chat(Path(place), browser) as scripted:
            scripted.agent.titles = {f"web_{name}": title for name, title in _TITLES.items()}
            await _talk_before(scripted)
            for name in NAMES:
                async with _conversation(scripted, name) as chat:
                    await chat.page.screenshot(path=folder / f"{name}.png")


async def _talk_before(scripted: ScriptedChat) -> None:
    for conversation, title in list(_TITLES.items())[:-1]:
        async with scripted.browsers.open(conversation=conversation) as chat:
            scripted.answer(await scripted.asked(chat, title), "Done.")
            await chat.answered()


@asynccontextmanager
async def _conversation(scripted: ScriptedChat, name: str) -> AsyncIterator[ChatPage]:
    """A plan in light colours, and a request for approval after it in dark ones."""
    size, scheme = NAMES[name]
    async with scripted.browsers.open(conversation="garden", size=size, scheme=scheme) as chat:
        await chat.page.clock.set_fixed_time(_NOW)
        if scheme == "light":
            await _plan(scripted, chat)
        else:
            run = await scripted.asked(chat, "Order the potatoes, and clean up the photos of 2019.")
            scripted.use_tool(run, "browser", "nursery.example/potatoes: 2 kg Annabelle")
            scripted.ask_approval(run, "rm -r ~/garden/photos/2019")
            await expect(chat.page.get_by_role("button", name="Deny")).to_be_visible()
        yield chat
        scripted.quiet()


async def _plan(scripted: ScriptedChat, chat: ChatPage) -> None:
    run = await scripted.asked(chat, _QUESTION)
    scripted.use_tool(run, "memory", "garden, notes of 2025")
    scripted.use_tool(run, "terminal", "weather --place Bonn --days 7")
    scripted.answer(run, _PLAN)
    await chat.answered()
