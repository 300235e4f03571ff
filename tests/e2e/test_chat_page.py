"""The chat page in a real Chromium, on the users' API of a simulated world: what users do, and what must not happen."""

import json
from collections.abc import AsyncIterator

import pytest
from playwright.async_api import expect

from tests.support.pages.browser import DESK, PHONE, Scheme, chromium
from tests.support.pages.chat_page import ChatPage, ChatWorld, chat_world, texts
from tests.support.suite.cases import each_case

pytestmark = pytest.mark.xdist_group("chat page")

LONG = " ".join(f"w{number}" for number in range(4000))
"""So long that the API passes it on in some ten events."""

FORMATTED = """hello

## A plan

| what | when |
|:--|--:|
| `sow` | **4 March** |

1. first
   - [the nursery](https://nursery.example/a)

> a note

```python
print("hello")
```
"""

ATTACKS = """<script>window.hacked = 1</script> <img src=https://attack.example/a.png onerror="window.hacked = 1">

<svg onload="window.hacked = 1"><iframe srcdoc="<script>parent.hacked = 1</script>"></iframe>

<style>body { background: url(https://attack.example/style) }</style> <link rel=stylesheet href=//attack.example/l>

[click](javascript:window.hacked=1) [tab](java\tscript:alert(1)) [data](data:text/html,<script>alert(1)</script>)
[vb](vbscript:x) <javascript:alert(1)> [entity](&#106;avascript:alert(1)) [up](JAVASCRIPT:alert(1)) [file](file:///etc/passwd)

![one](https://attack.example/image.png?secret) ![two](//attack.example/b.png "t") [![three](https://attack.example/c.png)](https://good.example/)

[ref]: https://attack.example/ref "x"
![ref] ![x][ref] [https://bank.example](https://attack.example/login)

**<b onmouseover=alert(1)>bold</b>** `</code><script>window.hacked = 1</script>` &lt;script&gt;window.hacked = 1&lt;/script&gt;

| <script>window.hacked = 1</script> | [a](javascript:alert(1)) |
|---|---|
| <img src=x onerror=alert(1)> | ![t](https://attack.example/t.png) |

```html"onload=alert(1)
</code></pre><script>window.hacked = 1</script>
```
"""


@pytest.fixture(scope="module")
async def chat_of_ada(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ChatWorld]:
    async with chromium() as browser, chat_world(tmp_path_factory.mktemp("home"), browser) as world:
        yield world


@pytest.fixture
async def chat(chat_of_ada: ChatWorld) -> AsyncIterator[ChatPage]:
    async with chat_of_ada.open() as page:
        yield page


# A conversation


async def test_an_answer_is_shown_formatted_spoken_once_and_kept(chat: ChatPage) -> None:
    answer = await chat.ask(FORMATTED)
    await expect(answer.get_by_role("table").get_by_role("cell", name="4 March")).to_have_css("text-align", "right")
    await expect(answer.get_by_role("heading", name="A plan")).to_be_visible()
    link = answer.get_by_role("link", name="the nursery")
    assert await link.get_attribute("href") == "https://nursery.example/a"
    assert await link.get_attribute("rel") == "noopener nofollow noreferrer"
    await expect(chat.spoken).to_contain_text("Your agent answered: YOU SAID: hello")
    assert await chat.page.locator("[aria-live]:not(button), [role=log]").count() == 0, "else each token is read"
    await expect(chat.page.locator("#conversations [aria-current]")).to_contain_text("hello")
    await chat.page.reload()
    await expect(await chat.answered()).to_contain_text("A plan")
    await expect(chat.page.locator("li.user")).to_contain_text("## A plan")


async def test_code_is_copied_as_it_is(chat: ChatPage) -> None:
    await chat.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    answer = await chat.ask("x\n\n```make\nall:\n\techo '<b>'\n```")
    await answer.get_by_role("button", name="Copy", exact=True).click()
    await expect(answer.get_by_role("button", name="Copied")).to_be_visible()
    assert await chat.page.evaluate("navigator.clipboard.readText()") == "all:\n\techo '<b>'"


async def test_hostile_markdown_does_nothing(chat: ChatPage) -> None:
    answer = await chat.ask(ATTACKS)
    assert await chat.page.evaluate("window.hacked") is None
    tags: list[str] = await answer.evaluate("node => [...node.querySelectorAll('*')].map(({localName}) => localName)")
    assert not {"script", "img", "svg", "iframe", "style", "link", "b"} & (set(tags) - {"svg"})
    links: list[str] = await answer.evaluate("node => [...node.querySelectorAll('a')].map(({href}) => href)")
    assert links
    assert {link.partition(":")[0] for link in links} == {"https"}
    assert await chat.page.locator("[style]").count() == 0
    await expect(answer).to_contain_text("<script>window.hacked = 1</script>")
    await expect(answer).to_contain_text("https://bank.example (attack.example)")


async def test_conversations_are_begun_switched_and_deleted(chat: ChatPage) -> None:
    await chat.ask("about apples")
    await chat.page.get_by_role("button", name="New conversation").click()
    await expect(chat.page.get_by_role("heading", name="What can your agent do for you?")).to_be_visible()
    await chat.ask("about pears")
    await chat.page.get_by_role("link", name="about apples").click()
    await expect(chat.page.locator("li.user")).to_have_text(["about apples"], use_inner_text=False)
    await chat.page.get_by_role("button", name="Delete", exact=True).click()
    await chat.page.get_by_role("button", name="Delete it").click()
    await expect(chat.page.get_by_role("link", name="about apples")).to_have_count(0)
    await expect(chat.page.locator("li.user")).to_contain_text("about pears")


async def test_an_answer_is_stopped(chat: ChatPage) -> None:
    await chat.send("SLEEP 1")
    await chat.page.get_by_role("button", name="Stop").click()
    await expect(await chat.answered()).to_contain_text("You stopped this answer.")
    await expect(chat.page.get_by_role("button", name="Send")).to_be_visible()


# Approvals


async def test_a_command_is_run_only_after_it_was_allowed(chat: ChatPage) -> None:
    await chat.send("RUN: rm -rf /srv/photos")
    card = chat.page.get_by_role("region", name="May your agent run this command?")
    await expect(card).to_contain_text("rm -rf /srv/photos")
    choices = ["Allow once", "Allow in this conversation", "Always allow", "Deny"]
    assert await texts(card.get_by_role("button")) == choices
    await expect(chat.page.locator("#alarm")).to_contain_text("Your agent asks for approval to run a command")
    await chat.tab_to("Deny", key="Shift+Tab")
    await chat.page.keyboard.press("Enter")
    await expect(card.locator(".outcome")).to_have_text("Denied")
    await expect(await chat.answered()).to_contain_text("TOOL SAID: BLOCKED: rm -rf /srv/photos")
    await chat.send("RUN: sudo reboot")
    await chat.page.get_by_role("button", name="Allow once").click()
    await expect(await chat.answered(2)).to_contain_text("TOOL SAID: (simulated) sudo reboot")


# The connection


async def test_an_answer_that_is_cut_at_each_event_is_whole(chat: ChatPage) -> None:
    chat.proxy.cut_after = 2  # the turn's name, and one event
    await chat.send(LONG)
    answer = await chat.answered_whatever_is_cut()
    await expect(answer.locator(".markdown")).to_have_text(f"YOU SAID: {LONG}")
    positions = [int(cursor.rpartition(":")[2]) for cursor in chat.proxy.resumed]
    assert chat.proxy.cuts >= 8
    assert positions == sorted(set(positions)), "each stream goes on behind the last event of the one before"
    assert [method for method, url in chat.proxy.asked if url.endswith("/chat")].count("POST") == 1


async def test_a_message_is_sent_once_whatever_is_lost(chat: ChatPage) -> None:
    chat.proxy.cut_after = 0  # the server has the message, and the page does not know
    await chat.send("SLEEP 0.1")
    await expect(chat.page.get_by_text("Connection lost")).to_be_visible()
    await chat.page.reload()  # it is kept, with its key
    chat.proxy.cut_after = None
    await expect(await chat.answered_whatever_is_cut()).to_contain_text("SLEPT")
    await chat.page.reload()
    await chat.answered()
    await expect(chat.page.locator("li.user")).to_have_count(1)


async def test_a_computer_that_slept_reads_on(chat: ChatPage) -> None:
    await chat.send("SLEEP 0.5")
    await expect(chat.working).to_be_visible()
    chat.proxy.is_away = True
    chat.proxy.cut_all()
    await expect(chat.page.get_by_text("Connection lost")).to_be_visible()
    chat.proxy.is_away = False
    await expect(await chat.answered_whatever_is_cut()).to_contain_text("SLEPT")
    await expect(chat.page.get_by_text("Connection lost")).to_be_hidden()


async def test_another_device_reads_on(chat: ChatPage, chat_of_ada: ChatWorld) -> None:
    conversation = chat.page.url.rpartition("/")[2]
    await chat.send("SLEEP 2")
    await expect(chat.page.locator("#conversations .pulse")).to_be_visible()
    async with chat_of_ada.open(conversation=conversation, size=PHONE, scheme="dark") as phone:
        await expect(phone.working).to_be_visible()
        await expect(await phone.answered()).to_contain_text("SLEPT")
        await expect(phone.page.locator("li.user")).to_contain_text("SLEEP 2")
    await expect(await chat.answered()).to_contain_text("SLEPT")


# Files


async def test_a_text_file_reaches_the_agent_and_others_are_refused_by_name(chat: ChatPage) -> None:
    await chat.page.locator("input[type=file]").set_input_files(
        [
            {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"beans at dawn"},
            {"name": "program.exe", "mimeType": "text/plain", "buffer": b"\x7fELF\x00\x00"},
            {"name": "film\u202e.txt", "mimeType": "text/plain", "buffer": b"x" * 10_000_001},
        ]
    )
    files = chat.page.get_by_role("list", name="Files").first
    await expect(files).to_contain_text("text, 13 B")
    await expect(files).to_contain_text("program.exe was not added: Program.exe: only images")
    await expect(files).to_contain_text("film⟨U+202E⟩.txt was not added: 10 MB, and 10 MB is the most.")
    answer = await chat.ask("look")
    await expect(answer).to_contain_text("File notes.txt:")
    await expect(answer.locator("code")).to_have_text("beans at dawn")
    await chat.page.reload()
    await chat.answered()
    await expect(chat.page.locator("li.user")).to_contain_text("notes.txt")
    await expect(chat.page.locator("li.user")).not_to_contain_text("beans at dawn")


# People


async def test_everything_is_done_by_the_keyboard(chat_of_ada: ChatWorld) -> None:
    async with chat_of_ada.open(size=PHONE) as chat:
        await expect(chat.message).to_be_focused()
        await chat.page.keyboard.press("Enter")
        await expect(chat.spoken).to_have_text("Write a message first. Enter sends, Shift and Enter begin a new line.")
        await chat.page.keyboard.type("one")
        await chat.page.keyboard.press("Shift+Enter")
        await chat.page.keyboard.type("two")
        await chat.page.keyboard.press("Enter")
        await expect(await chat.answered()).to_contain_text("YOU SAID: one two", use_inner_text=False)
        await chat.tab_to("Menu", key="Shift+Tab")
        await chat.page.keyboard.press("Enter")
        await chat.page.keyboard.press("Escape")
        assert await chat.focused() == "Menu"
        await chat.page.keyboard.press("Enter")
        await chat.tab_to("Usage")
        await chat.page.keyboard.press("Enter")
        await expect(chat.page.get_by_role("heading", name="Usage")).to_be_focused()
        await expect(chat.page.get_by_text("Tokens read")).to_be_visible()


@each_case("size", [DESK, PHONE])
@each_case("scheme", ["light", "dark"])
async def test_nothing_keeps_people_out(chat_of_ada: ChatWorld, size: tuple[int, int], scheme: Scheme) -> None:
    async with chat_of_ada.open(size=size, scheme=scheme) as chat:
        assert await chat.watched.serious() == []
        await chat.ask(FORMATTED)
        await chat.send("RUN: rm x")
        await expect(chat.page.get_by_role("button", name="Deny")).to_be_visible()
        assert await chat.watched.serious() == []
        await chat.page.get_by_role("button", name="Deny").click()
        await chat.answered(2)
        overflows = "document.documentElement.scrollWidth > innerWidth"
        assert not await chat.page.evaluate(overflows)
        for section in ("usage", "settings", "jobs", "plan"):
            await chat.go(section)
            await expect(chat.page.locator(".section h2").first).to_be_visible()
            assert await chat.watched.serious() == [], section
            assert not await chat.page.evaluate(overflows), section


# Sections


async def test_a_job_is_added_and_removed(chat: ChatPage) -> None:
    await chat.go("jobs")
    await chat.page.get_by_label("What to do").fill("Tell me the weather")
    await chat.page.get_by_label("When").fill("0 8 * * 1-5")
    await chat.page.get_by_role("button", name="Add").click()
    await chat.page.get_by_role("button", name="Remove: Tell me the weather").click()
    await expect(chat.page.get_by_text("Your agent does nothing by itself yet.")).to_be_visible()


async def test_settings_that_changed_meanwhile_are_not_overwritten(chat: ChatPage, chat_of_ada: ChatWorld) -> None:
    await chat.go("settings")
    await expect(chat.page.get_by_label("Personality")).to_be_visible()
    async with chat_of_ada.open() as other:
        await other.go("settings")
        await other.page.get_by_label("Personality").fill("Calm and short.")
        await other.page.get_by_role("button", name="Save").click()
        await expect(other.spoken).to_contain_text("Saved.")
    await chat.page.get_by_label("Personality").fill("Loud.")
    await chat.page.get_by_role("button", name="Save").click()
    await chat.page.get_by_role("button", name="Show the new values").click()
    await expect(chat.page.get_by_label("Personality")).to_have_value("Calm and short.")


# Refusals


async def test_nothing_is_sent_to_a_suspended_agent_and_the_reason_is_spoken(chat_of_ada: ChatWorld) -> None:
    await chat_of_ada.command.ok("instance", "suspend", "ada", "--reason", "unpaid")
    try:
        async with chat_of_ada.open() as chat:
            await chat.send("hello")
            await expect(chat.spoken).to_contain_text("Your agent is suspended.")
            await expect(chat.message).to_have_value("hello")
            assert [url for method, url in chat.proxy.asked if method == "POST" and "/api/" in url] == []
            await chat.go("plan")
            await expect(chat.page.get_by_text("everything it knows is kept")).to_be_visible()
    finally:
        await chat_of_ada.command.ok("instance", "resume", "ada", "--reason", "paid")


async def test_who_is_signed_out_is_led_back(chat: ChatPage, chat_of_ada: ChatWorld) -> None:
    place = chat.page.url
    await chat.page.get_by_role("button", name="Sign out").click()
    chat_of_ada.state.clear()
    await chat.page.get_by_role("link", name="Sign in").click()
    await chat.page.get_by_role("button", name="Continue as ada").click()
    await expect(chat.message).to_be_visible()
    assert chat.page.url == place
    assert json.loads(await chat.page.evaluate("JSON.stringify(Object.keys(sessionStorage))")) == []
