"""The chat page in a real Chromium, over the API and a scripted agent: what users do, and what must not happen."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from playwright.async_api import FilePayload, Route, expect

from hermesops.base.network.http import own_client
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.providers.table import BY_ID
from tests.support.pages.browser import DESK, PHONE, Scheme, chromium
from tests.support.pages.chat_page import ChatPage
from tests.support.pages.scripted_chat import ScriptedChat, scripted_chat
from tests.support.suite.cases import each_case
from tests.support.users.model_provider import key_for, standing_in
from tests.support.users.settings_worker import settings_worker

pytestmark = pytest.mark.xdist_group("chat page")

PIECES = [f"{number:04d} " + "w" * 2_000 + "\n\n" for number in range(12)]
"""Each so long that the API passes it on by itself."""

FORMATTED = """hello

## A plan

| what | where | how much | when |
|:--|:--|:--|--:|
| `sow` | the northern bed | a hundred grams | **4 March** |

1. first
   - [the nursery](https://nursery.example/a)

> a note

```python
print("a line of code that is longer than any phone is wide, and scrolls in its own box")
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

**<b onmouseover=alert(1)>bold</b>** `</code><script>window.hacked = 1</script>`
&lt;script&gt;window.hacked = 1&lt;/script&gt;

| <script>window.hacked = 1</script> | [a](javascript:alert(1)) |
|---|---|
| <img src=x onerror=alert(1)> | ![t](https://attack.example/t.png) |

```html"onload=alert(1)
</code></pre><script>window.hacked = 1</script>
```
"""


_TOO_WIDE = """() => [...document.querySelectorAll("header, h1, .message, .table, .code, .row, .card, .choices")]
    .filter((node) => node.getBoundingClientRect().right > innerWidth || node.getBoundingClientRect().left < 0)
    .map((node) => node.outerHTML.slice(0, 100))"""

CHOICES = [
    ("once", "Allow once", "Allowed once"),
    ("session", "Allow in this conversation", "Allowed in this conversation"),
    ("always", "Always allow", "Always allowed"),
    ("deny", "Deny", "Denied"),
]


@pytest.fixture(scope="module")
async def scripted(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ScriptedChat]:
    async with chromium() as browser, scripted_chat(tmp_path_factory.mktemp("chat"), browser) as chat:
        yield chat


@pytest.fixture
async def chat(scripted: ScriptedChat) -> AsyncIterator[ChatPage]:
    scripted.quiet()
    async with scripted.browsers.open() as page:
        yield page


# A conversation


async def test_an_answer_is_shown_as_it_comes_and_spoken_once(scripted: ScriptedChat, chat: ChatPage) -> None:
    run = await scripted.asked(chat, "Plan it")
    scripted.write(run, FORMATTED[:90])
    await expect(chat.answers.get_by_role("heading", name="A plan")).to_be_visible()
    # The second follows where the conversation's history comes after the message: the page reads the turn on.
    await expect(chat.spoken).to_have_text(re.compile(r"^(Sent|Your agent is working on an answer)\.$"))
    scripted.write(run, FORMATTED[60:])
    scripted.agent.end(run, FORMATTED.strip())
    answer = await chat.answered()
    await expect(answer.get_by_role("cell", name="4 March")).to_have_css("text-align", "right")
    link = answer.get_by_role("link", name="the nursery")
    assert await link.get_attribute("href") == "https://nursery.example/a"
    assert await link.get_attribute("rel") == "noopener nofollow noreferrer"
    await expect(chat.spoken).to_contain_text("Your agent answered: hello")
    assert await chat.page.locator("[aria-live]:not(button), [role=log]").count() == 0, "else each token is read"
    await expect(chat.page.locator("#conversations [aria-current]")).to_contain_text("About Plan it")
    await chat.page.reload()
    await expect(await chat.answered()).to_contain_text("A plan")
    await expect(chat.page.locator("li.user")).to_contain_text("Plan it")


@pytest.mark.turns(2)
async def test_a_message_that_is_sent_while_the_history_loads_stays(scripted: ScriptedChat, chat: ChatPage) -> None:
    scripted.answer(await scripted.asked(chat, "first"), "one")
    await chat.answered()
    chat.proxy.held = "/chat/conversations/"
    await chat.page.reload()
    run = await scripted.asked(chat, "second")
    chat.proxy.release()
    await expect(chat.page.locator("li.user")).to_have_count(2)
    scripted.answer(run, "two")
    await expect(await chat.answered(2)).to_contain_text("two")


@pytest.mark.turns(2)
async def test_code_is_copied_as_it_is(scripted: ScriptedChat, chat: ChatPage) -> None:
    await chat.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    scripted.answer(await scripted.asked(chat, "code"), "x\n\n```make\nall:\n\techo '<b>'\n```")
    answer = await chat.answered()
    await answer.get_by_role("button", name="Copy", exact=True).click()
    await expect(answer.get_by_role("button", name="Copied")).to_be_visible()
    assert await chat.page.evaluate("navigator.clipboard.readText()") == "all:\n\techo '<b>'"


async def test_hostile_markdown_does_nothing(scripted: ScriptedChat, chat: ChatPage) -> None:
    run = await scripted.asked(chat, ATTACKS)
    for begin in range(0, len(ATTACKS), 40):
        scripted.write(run, ATTACKS[begin : begin + 40])
    scripted.agent.end(run, ATTACKS)
    answer = await chat.answered()
    assert await chat.page.evaluate("window.hacked") is None
    tags = set(await answer.evaluate("node => [...node.querySelectorAll('*')].map(({localName}) => localName)"))
    assert tags.isdisjoint({"script", "img", "iframe", "style", "link", "b", "object", "form"})
    links: list[str] = await answer.evaluate("node => [...node.querySelectorAll('a')].map(({href}) => href)")
    assert links
    assert {link.partition(":")[0] for link in links} == {"https"}
    assert await chat.page.locator("[style]").count() == 0
    await expect(answer).to_contain_text("<script>window.hacked = 1</script>")
    await expect(answer).to_contain_text("https://bank.example (attack.example)")


@pytest.mark.turns(3)
async def test_conversations_are_begun_switched_and_deleted(scripted: ScriptedChat, chat: ChatPage) -> None:
    scripted.agent.says = True
    await chat.ask("apples")
    await chat.page.get_by_role("button", name="New conversation").click()
    await expect(chat.page.get_by_role("heading", name="What can your agent do for you?")).to_be_visible()
    await chat.ask("pears")
    await chat.page.get_by_role("link", name="About apples").click()
    await expect(chat.page.locator("li.user")).to_contain_text("apples")
    await chat.page.get_by_role("button", name="Delete", exact=True).click()
    await chat.page.get_by_role("button", name="Delete it").click()
    await expect(chat.page.get_by_role("link", name="About apples")).to_have_count(0)
    await expect(chat.page.locator("li.user")).to_contain_text("pears")


@pytest.mark.turns(2)
async def test_an_answer_is_stopped(scripted: ScriptedChat, chat: ChatPage) -> None:
    scripted.write(await scripted.asked(chat, "count to a million"), "one, two")
    await expect(chat.answers).to_contain_text("one, two")
    await chat.page.get_by_role("button", name="Stop").click()
    await expect(await chat.answered()).to_contain_text("You stopped this answer.")
    await expect(chat.page.get_by_role("button", name="Send")).to_be_visible()
    await chat.page.reload()
    await expect(await chat.answered()).to_contain_text("You stopped this answer.")


@pytest.mark.turns(2)
async def test_a_failed_answer_says_so(scripted: ScriptedChat, chat: ChatPage) -> None:
    run = await scripted.asked(chat, "fail")
    scripted.write(run, "half an ans")
    scripted.agent.restart()
    await expect(await chat.answered()).to_contain_text(
        "The answer was interrupted and is lost; send the message again."
    )
    assert run.text == "fail"
    await expect(chat.page.locator("#alarm")).to_contain_text("The answer was interrupted")
    await chat.page.reload()
    await expect(await chat.answered()).to_contain_text("The answer was interrupted")
    await expect(chat.page.locator("#alarm")).to_be_empty()


# Tools and approvals


@pytest.mark.turns(2)
async def test_tools_are_shown_with_their_end(scripted: ScriptedChat, chat: ChatPage) -> None:
    run = await scripted.asked(chat, "look")
    scripted.agent.push(run, "tool.started", tool="terminal", preview="ls \u202etxt.exe")
    tool = chat.page.get_by_role("list", name="Tools").get_by_role("listitem")
    await expect(tool).to_contain_text("running")
    assert "\u202e" not in await tool.inner_text()
    scripted.agent.push(run, "tool.completed", tool="terminal", error=True)
    await expect(tool).to_contain_text("failed")
    scripted.answer(run, "done")
    await chat.answered()


@each_case(("choice", "words", "outcome"), CHOICES)
async def test_a_request_for_approval_is_answered_by_keyboard(
    scripted: ScriptedChat, choice: str, words: str, outcome: str
) -> None:
    scripted.quiet()
    async with scripted.browsers.open() as chat:
        run = await scripted.asked(chat, "clean up")
        scripted.ask_approval(run, "rm -rf /srv/photos")
        card = chat.page.get_by_role("region", name="May your agent run this command?")
        await expect(card.locator("code")).to_have_text("rm -rf /srv/photos")
        await expect(chat.page.locator("#alarm")).to_contain_text("Your agent asks for approval to run a command")
        assert await card.get_by_role("button").all_inner_texts() == [words for _, words, _ in CHOICES]
        await chat.tab_to(words, key="Shift+Tab")
        await chat.page.keyboard.press("Enter")
        await expect(card.locator(".outcome")).to_have_text(outcome)
        await expect(card.locator(".outcome")).to_be_focused()
        assert await scripted.choice_of(run) == choice
        scripted.answer(run, "as you like")
        await chat.answered()


@pytest.mark.turns(2)
async def test_a_command_that_is_not_shown_to_its_end_can_only_be_denied(
    scripted: ScriptedChat, chat: ChatPage
) -> None:
    run = await scripted.asked(chat, "a long command")
    scripted.ask_approval(run, "echo " + "x" * 9_000 + "; rm -rf /")
    card = chat.page.get_by_role("region", name="May your agent run this command?")
    await expect(card.get_by_role("button")).to_have_text(["Deny"])
    await card.get_by_role("button").click()
    assert await scripted.choice_of(run) == "deny"
    scripted.answer(run, "denied")
    await chat.answered()


# The connection


async def test_an_answer_that_is_cut_at_each_event_is_whole(scripted: ScriptedChat, chat: ChatPage) -> None:
    chat.proxy.cut_after = 2  # the turn's name, and one event
    run = await scripted.asked(chat, "a long one")
    scripted.write(run, *PIECES)
    scripted.agent.end(run, "".join(PIECES).strip())
    answer = await chat.answered_whatever_is_cut()
    assert (await answer.locator(".markdown > p").all_inner_texts()) == [piece.strip() for piece in PIECES]
    positions = [int(cursor.rpartition(":")[2]) for cursor in chat.proxy.resumed]
    assert chat.proxy.cuts >= len(PIECES) - 1
    assert positions == sorted(positions), "each stream goes on behind the last event of the one before"
    assert len(set(positions)) >= len(PIECES) - 1, "and what had arrived is not sent again"
    assert scripted.agent.run.text == "a long one"


@pytest.mark.turns(2)
async def test_a_message_is_sent_once_whatever_is_lost(scripted: ScriptedChat, chat: ChatPage) -> None:
    before = scripted.agent.posts
    chat.proxy.cut_after = 0  # the server has the message, and the page does not know
    run = await scripted.asked(chat, "only once")
    await expect(chat.page.get_by_text("Connection lost")).to_be_visible()
    await chat.page.reload()  # it is kept, with its key
    await expect(chat.page.get_by_text("Connection lost")).to_be_visible()
    chat.proxy.cut_after = None
    scripted.answer(run, "once")
    await expect(await chat.answered_whatever_is_cut()).to_contain_text("once")
    await expect(chat.page.locator("li.user")).to_have_count(1)
    assert scripted.agent.posts == before + 1


@pytest.mark.turns(2)
async def test_a_message_that_did_not_arrive_is_sent_after_a_reload(scripted: ScriptedChat, chat: ChatPage) -> None:
    chat.proxy.lost = "/api/hermes/chat"
    await chat.send("not yet")
    await expect(chat.page.get_by_text("Connection lost")).to_be_visible()
    await chat.page.reload()
    await expect(chat.page.locator("li.user")).to_contain_text("not yet")
    chat.proxy.lost = ""
    await chat.page.evaluate("dispatchEvent(new Event('online'))")
    scripted.answer(await scripted.run_of("not yet"), "now")
    await expect(await chat.answered()).to_contain_text("now")
    await expect(chat.page.locator("li.user")).to_have_count(1)


@pytest.mark.turns(2)
async def test_a_computer_that_slept_reads_on(scripted: ScriptedChat, chat: ChatPage) -> None:
    run = await scripted.asked(chat, "wait")
    scripted.write(run, "the beginning, ")
    await expect(chat.answers).to_contain_text("the beginning,")
    chat.proxy.is_away = True
    chat.proxy.cut_all()
    await expect(chat.page.get_by_text("Connection lost")).to_be_visible()
    scripted.write(run, "and the end")
    scripted.agent.end(run, "the beginning, and the end")
    chat.proxy.is_away = False
    answer = await chat.answered_whatever_is_cut()
    await expect(answer.locator(".markdown")).to_have_text("the beginning, and the end")
    await expect(chat.page.get_by_text("Connection lost")).to_be_hidden()


async def test_another_device_reads_on(scripted: ScriptedChat, chat: ChatPage) -> None:
    run = await scripted.asked(chat, "both")
    scripted.write(run, "seen ")
    await expect(chat.answers).to_contain_text("seen")
    conversation = chat.page.url.rpartition("/")[2]
    async with scripted.browsers.open(conversation=conversation, size=PHONE, scheme="dark") as phone:
        await expect(phone.answers).to_contain_text("seen")
        scripted.write(run, "by both")
        scripted.agent.end(run, "seen by both")
        for device in (chat, phone):
            await expect((await device.answered()).locator(".markdown")).to_have_text("seen by both")
            await expect(device.page.locator("li.user")).to_contain_text("both")


@pytest.mark.turns(3)
async def test_a_refused_message_is_a_draft_again(scripted: ScriptedChat, chat: ChatPage) -> None:
    conversation = chat.page.url.rpartition("/")[2]
    async with scripted.browsers.open(conversation=conversation) as other:
        run = await scripted.asked(other, "first")
        await chat.send("second")
        await expect(chat.page.locator(".notice")).to_contain_text("The agent still answers in this conversation.")
        await expect(chat.message).to_have_value("second")
        await expect(chat.message).to_be_focused()
        scripted.answer(run, "done")
        await other.answered()


# Files


@pytest.mark.turns(6)
async def test_a_text_file_reaches_the_agent_and_others_are_refused_by_name(
    scripted: ScriptedChat, chat: ChatPage
) -> None:
    await chat.page.locator("input[type=file]").set_input_files(
        [
            FilePayload(name="notes.txt", mimeType="text/plain", buffer=b"beans at dawn"),
            FilePayload(name="program.exe", mimeType="text/plain", buffer=b"\x7fELF\x00\x00"),
            FilePayload(name="film\u202e.txt", mimeType="text/plain", buffer=b"x" * 10_000_001),
        ]
    )
    files = chat.page.get_by_role("list", name="Files").first
    await expect(files).to_contain_text("text, 13 B")
    await expect(files).to_contain_text("program.exe was not added: Program.exe: only images")
    await expect(files).to_contain_text("film⟨U+202E⟩.txt was not added: 10 MB, and 10 MB is the most.")
    await chat.send("look")
    run = await scripted.run_of("look\n\nFile notes.txt:\n```\nbeans at dawn\n```")
    scripted.answer(run, "read")
    await chat.answered()
    await chat.page.reload()
    await chat.answered()
    await expect(chat.page.locator("li.user")).to_contain_text("notes.txt")
    await expect(chat.page.locator("li.user")).not_to_contain_text("beans at dawn")


# People


async def test_everything_is_done_by_the_keyboard(scripted: ScriptedChat) -> None:
    scripted.agent.says = True
    async with scripted.browsers.open(size=PHONE) as chat:
        await expect(chat.message).to_be_focused()
        await chat.page.keyboard.press("Enter")
        await expect(chat.spoken).to_have_text("Write a message first. Enter sends, Shift and Enter begin a new line.")
        await chat.page.keyboard.type("one")
        await chat.page.keyboard.press("Shift+Enter")
        await chat.page.keyboard.type("two")
        await chat.page.keyboard.press("Enter")
        await expect(await chat.answered()).to_contain_text("You said it: one")
        assert scripted.agent.run.text == "one\ntwo"
        await chat.tab_to("Menu", key="Shift+Tab")
        await chat.page.keyboard.press("Enter")
        await chat.page.keyboard.press("Escape")
        assert await chat.focused() == "Menu"
        await chat.page.keyboard.press("Enter")
        await chat.tab_to("Usage")
        await chat.page.keyboard.press("Enter")
        await expect(chat.page.get_by_role("heading", name="Usage")).to_be_focused()
        await expect(chat.page.get_by_text("Tokens read")).to_be_visible()


@pytest.mark.turns(10)
@each_case("size", [DESK, PHONE])
@each_case("scheme", ["light", "dark"])
async def test_nothing_keeps_people_out(scripted: ScriptedChat, size: tuple[int, int], scheme: Scheme) -> None:
    scripted.quiet()
    async with scripted.browsers.open(size=size, scheme=scheme) as chat:
        assert await chat.watched.serious() == []
        run = await scripted.asked(chat, "a conversation with a title that is longer than any phone is wide")
        scripted.use_tool(run, "terminal", "ls")
        scripted.ask_approval(run, "rm x")
        await expect(chat.page.get_by_role("button", name="Deny")).to_be_visible()
        assert await chat.watched.serious() == []
        await chat.page.get_by_role("button", name="Deny").click()
        scripted.answer(run, FORMATTED)
        await chat.answered()
        assert await chat.watched.serious() == []
        assert await chat.page.evaluate(_TOO_WIDE) == []
        for section in ("usage", "settings", "jobs", "connections", "callers", "plan"):
            await chat.go(section)
            await expect(chat.page.locator(".section h2").first).to_be_visible()
            assert await chat.watched.serious() == [], section
            assert await chat.page.evaluate(_TOO_WIDE) == [], section


# Sections and refusals


@pytest.mark.turns(2)
async def test_a_job_is_added_and_removed(chat: ChatPage) -> None:
    await chat.go("jobs")
    await chat.page.get_by_label("What to do").fill("Tell me the weather")
    await chat.page.get_by_label("When").fill("never")
    await chat.page.get_by_role("button", name="Add").click()
    await expect(chat.page.locator("form .failure")).not_to_be_empty()
    await chat.page.get_by_label("When").fill("0 8 * * 1-5")
    await chat.page.get_by_role("button", name="Add").click()
    await chat.page.get_by_role("button", name="Remove: Tell me the weather").click()
    await expect(chat.page.get_by_text("Your agent does nothing by itself yet.")).to_be_visible()


@pytest.mark.turns(3)
async def test_a_service_is_connected_and_disconnected(scripted: ScriptedChat, chat: ChatPage) -> None:
    composio = scripted.api.composio
    await chat.go("connections")
    for verb, choice, state in (("Connect", "Refuse", "not connected"), ("Connect again", "Agree", "connected")):
        await chat.page.get_by_role("button", name=f"{verb}: Gmail", exact=True).click()
        await chat.page.get_by_role("button", name=choice).click()
        gmail = chat.page.locator("li", has_text="Gmail")
        await expect(gmail.locator(".badge")).to_have_text(state)
    [account] = composio.accounts.values()
    assert (account.user, account.status) == (scripted.api.ada.id, "ACTIVE")
    assert await chat.watched.serious() == []
    await chat.page.get_by_role("button", name="Disconnect: Gmail").press("Enter")
    await expect(chat.spoken).to_have_text("Gmail is disconnected.")
    await expect(chat.page.get_by_role("button", name="Connect: Gmail", exact=True)).to_be_visible()
    assert not composio.accounts


@pytest.mark.turns(3)
async def test_a_caller_gets_a_key_that_is_shown_once_and_revoked(scripted: ScriptedChat, chat: ChatPage) -> None:
    page, key = chat.page, chat.page.get_by_text(re.compile(r"^hma_[A-Za-z0-9_-]{43}$"))
    await chat.go("callers")
    await page.get_by_label("Name").fill("grace's agent")
    await page.get_by_label("Hosts for notifications").fill("hooks.example.com")
    await page.get_by_role("button", name="Create a key").press("Enter")
    await expect(key).to_be_focused()
    tasks = f"{scripted.api.process.url}/a2a/{scripted.api.ada.id}/tasks"
    headers = {"authorization": f"Bearer {await key.inner_text()}", "a2a-version": "1.0"}
    async with own_client() as http:
        assert (await http.get(tasks, headers=headers)).status_code == 200
    assert await chat.watched.serious() == []
    assert await page.evaluate(_TOO_WIDE) == []
    await chat.go("usage")
    await chat.go("callers")
    await expect(page.get_by_text("Notifications go to hooks.example.com.")).to_be_visible()
    await expect(key).to_have_count(0)
    await page.get_by_role("button", name="Revoke: grace's agent").press("Enter")
    await expect(chat.spoken).to_have_text("The key of grace's agent is revoked.")
    await expect(page.get_by_text("No other agent may call yours yet.")).to_be_visible()


@pytest.mark.turns(9)
async def test_a_provider_of_the_users_own_is_chosen_shown_without_its_key_and_removed(
    scripted: ScriptedChat, chat: ChatPage, tmp_path: Path
) -> None:
    page, openai = chat.page, BY_ID["openai"]
    key, field = key_for(openai, "canary-of-the-key"), chat.page.get_by_label("API key")
    async with standing_in(tmp_path) as provider, settings_worker(scripted.api, provider.client):
        provider.keys, provider.models, provider.status = {key}, (openai.example,), 503
        await chat.go("settings")
        await expect(field).to_be_hidden()
        await page.get_by_label("Provider").select_option("openai")
        assert await field.get_attribute("type") == "password"
        await page.get_by_label("Model name").fill("claude-sonnet-4-5")
        await field.fill(key)
        await page.get_by_role("button", name="Save provider").click()
        await expect(page.get_by_text("choose anthropic")).to_be_visible()
        await page.get_by_label("Model name").fill(openai.example)
        await page.get_by_role("button", name="Save provider").click()
        await page.get_by_role("button", name="Save without verification").click()
        await expect(page.get_by_text("not verified")).to_be_visible()
        provider.status = 200
        await field.fill(key)
        await page.get_by_role("button", name="Save provider").press("Enter")
        await expect(chat.spoken).to_have_text("Your agent now uses your own provider.")
        await expect(page.get_by_text(re.compile("^accepted "))).to_be_visible()
        await expect(field).to_have_value("")
        assert key not in await page.content()
        assert await chat.watched.serious() == []
        assert await page.evaluate(_TOO_WIDE) == []
        await chat.go("usage")
        await expect(
            page.get_by_text("Your agent uses OpenAI with your own key, and OpenAI bills you.")
        ).to_be_visible()
        await chat.go("settings")
        await page.get_by_label("Provider").select_option("")
        await page.get_by_role("button", name="Save provider").click()
        await expect(chat.spoken).to_have_text("Your agent now uses the platform's models.")
        await expect(page.get_by_text("accepted ")).to_have_count(0)


@pytest.mark.turns(2)
async def test_a_section_that_the_api_does_not_have_is_not_in_the_menu(scripted: ScriptedChat) -> None:
    parts = scripted.api.process.parts
    connections = parts.connections
    object.__setattr__(parts, "connections", None)
    try:
        async with scripted.browsers.open() as chat:
            await expect(chat.page.locator("#sections a")).to_have_text(
                ["Plan", "Usage", "Settings", "Jobs", "Callers"]
            )
    finally:
        object.__setattr__(parts, "connections", connections)


@pytest.mark.turns(2)
async def test_nothing_is_sent_to_a_suspended_agent_and_the_reason_is_spoken(scripted: ScriptedChat) -> None:
    instances, ada = scripted.api.relay.registry.instances, scripted.api.ada.id
    instances.set_status(ada, InstanceStatus.SUSPENDED)
    try:
        async with scripted.browsers.open() as chat:
            await chat.send("hello")
            await expect(chat.spoken).to_contain_text("Your agent is suspended.")
            await expect(chat.message).to_have_value("hello")
            assert [url for method, url in chat.proxy.asked if method == "POST" and "/api/" in url] == []
            await chat.go("plan")
            await expect(chat.page.get_by_text("everything it knows is kept")).to_be_visible()
    finally:
        instances.set_status(ada, InstanceStatus.RUNNING)


@pytest.mark.turns(2)
async def test_a_page_that_is_opened_too_early_comes_by_itself(chat: ChatPage) -> None:
    chat.proxy.lost = "/api/hermes/me"
    await chat.page.reload()
    await expect(chat.page.get_by_role("button", name="Try again")).to_be_visible()
    chat.proxy.lost = ""
    await expect(chat.message).to_be_visible()


@pytest.mark.turns(12)
@each_case("file", ["/chat/turn_reader.js", "/main.js", "/page.css"])
async def test_a_page_that_lost_a_file_on_the_way_comes_by_itself(chat: ChatPage, file: str) -> None:
    await chat.forget_files()
    chat.proxy.lost = file
    before = len(chat.proxy.asked)
    await chat.page.reload(wait_until="commit")
    await chat.page.wait_for_timeout(3_500)
    loads = [url for _, url in chat.proxy.asked[before:] if url.endswith("/hermes-max/chat")]
    assert 2 <= len(loads) <= 3, "it is loaded anew, and not all the time"
    chat.proxy.lost = ""
    await expect(chat.message).to_be_visible()
    await chat.page.reload()
    await expect(chat.message).to_be_visible()


@pytest.mark.turns(25)
async def test_a_page_that_waits_for_a_file_is_loaded_anew(chat: ChatPage) -> None:
    await chat.forget_files()
    chat.proxy.held = "/chat/turn_reader.js"
    await chat.page.reload(wait_until="commit")
    await expect(chat.page.get_by_text("Loading …")).to_be_visible()
    chat.proxy.held = ""
    await expect(chat.message).to_be_visible()


@pytest.mark.turns(2)
@each_case("place", ["#/usage", "#/chat/elsewhere", ""], ids=["section", "conversation", "no place"])
async def test_the_page_waits_for_no_agent_that_lists_its_conversations_late(chat: ChatPage, place: str) -> None:
    listing, given_up = asyncio.Event(), []

    async def late(route: Route) -> None:
        await listing.wait()
        await route.abort()

    page = chat.page
    await page.goto("about:blank")
    await page.route("**/api/hermes/chat/conversations", late)
    page.on("requestfailed", lambda request: given_up.append(request.url))
    await page.goto(f"{chat.url}/hermes-max/chat{place}")
    shown = page.get_by_role("heading", name="Usage").first if place == "#/usage" else chat.message
    await expect(shown).to_be_visible()
    assert not given_up, "it was shown when the list was given up"
    listing.set()
    await page.unroute_all(behavior="wait")


async def test_a_user_who_is_signed_out_is_led_back(scripted: ScriptedChat, chat: ChatPage) -> None:
    place = chat.page.url
    await chat.page.get_by_role("button", name="Sign out").click()
    scripted.browsers.state = None
    await chat.page.get_by_role("link", name="Sign in").click()
    await chat.page.get_by_role("button", name="Continue as ada").click()
    await expect(chat.message).to_be_visible()
    assert chat.page.url == place
    assert await chat.page.evaluate("Object.keys(sessionStorage)") == []
