"""The phone of a local world: a person connects a messenger on the chat page, and writes to an agent in it."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from playwright.async_api import expect

from tests.support.pages.browser import chromium, watched_page
from tests.support.pages.chat_page import ChatPage
from tests.support.pages.cutting_proxy import cutting_proxy
from tests.support.pages.phone_page import PhonePage
from tests.support.real.commands.command import Command, local_world

pytestmark = pytest.mark.xdist_group("chat page")

_JOB = {"action": "create", "prompt": "say words of a job", "schedule": "1m", "deliver": "origin"}
_LATER_S = 240.0
"""Seconds until the first answer: the agent's gateway dials, and its first turn loads what it needs."""


def facts_of(world: Command) -> Mapping[str, Any]:
    facts: Mapping[str, Any] = json.loads((world.home / "local" / "world" / "world.json").read_text())
    return facts


@asynccontextmanager
async def connected(world: Command) -> AsyncIterator[tuple[PhonePage, ChatPage]]:
    """The phone in a browser, once ada has connected it on her chat page."""
    facts = facts_of(world)
    async with chromium() as browser, cutting_proxy() as proxy, watched_page(browser, proxy) as watched:
        chat, phone = ChatPage(watched, proxy, facts["users_url"]), PhonePage(watched, facts["phone_url"])
        await chat.sign_in()
        await chat.go("messengers")
        await watched.page.get_by_role("button", name="Connect: Telegram").click()
        link = watched.page.get_by_role("link", name="Open Telegram, and press start")
        address = await link.get_attribute("href")
        assert address
        assert address.startswith(f"{facts['phone_url']}#/telegram/")
        await watched.page.goto(address)
        await phone.press_start()
        await phone.hears("connected with your agent", _LATER_S)
        yield phone, chat
        assert watched.violations == []
        assert watched.errors == []
        assert proxy.foreign() == []


@pytest.mark.turns(60)
async def test_a_messenger_is_connected_on_the_chat_page_and_operators_see_no_text(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    async with local_world(tmp_path_factory.mktemp("home"), driver="sim", vendors=True) as world:
        await world.ok("provision", "ada", "--plan", "light")
        facts, shown = facts_of(world), (await world.ok("local", "status")).stdout
        assert f"phone   {facts['phone_url']}" in shown
        assert f"sockets {facts['connector_url']}/relay" in shown
        async with connected(world) as (phone, chat):
            await phone.say("canary-words of ada")
            await expect(phone.bubbles.last).to_have_text("You: canary-words of ada")
            await chat.go("messengers")
            await expect(chat.page.get_by_text("Ada, since")).to_be_visible()
        await operators_see(world)


async def operators_see(world: Command) -> None:
    checks = (await world.ok("messenger", "check", "--json")).json["checks"]
    assert {check["check"]: check["verdict"] for check in checks} == {
        "telegram-secret": "ok",
        "connector-key": "ok",
        "telegram-token": "ok",
        "telegram-webhook": "ok",
        "slack-secret": "ok",
        "slack-token": "ok",
        "whatsapp-secret": "ok",
        "whatsapp-key": "ok",
        "whatsapp-token": "ok",
        "whatsapp-webhook": "ok",
        "discord-token": "ok",
        "discord-webhook": "ok",
        "discord-gateway": "ok",
    }
    rows = {row["messenger"]: row for row in (await world.ok("messenger", "list", "--json")).json["messengers"]}
    assert {name: (row["bot"], row["linked"], row["waiting"]) for name, row in rows.items()} == {
        "telegram": ("local_hermes_bot", 1, 1),
        "slack": ("A0LOCAL0001", 0, 0),
        "whatsapp": ("15550001111", 0, 0),
        "discord": ("1234567890123456789", 0, 0),
    }
    listed = await world.ok("message", "list", "--json")
    assert [(each["direction"], each["state"]) for each in listed.json["messages"]] == [
        ("in", "queued"),
        ("out", "sent"),
        ("in", "handled"),
    ]
    waiting, answer, start = (each["message"] for each in listed.json["messages"])
    shown = [await world.ok("message", "show", each) for each in (waiting, answer, start)]
    assert "canary-words" not in "".join(ran.stdout for ran in (listed, *shown))
    for message, words in ((answer, "was delivered"), (waiting, "goes to the agent again by itself")):
        refused = await world.run("message", "retry", message, "--reason", "test")
        assert (refused.exit_code, words in refused.stderr) == (3, True), refused.stderr
    counts = (await world.ok("connector", "status", "--json")).json
    assert ("telegram", 1) in [(each["messenger"], each["linked"]) for each in counts["messengers"]]
    for fault, (exit_code, words) in {
        "messenger-refuses-token": (3, "does not take the token"),
        "messenger-fails": (0, "HTTP 502"),
    }.items():
        await world.ok("local", "fault", "set", fault, "--times", "50")
        checked = await world.run("messenger", "check", "telegram")
        assert (checked.exit_code, words in checked.stdout) == (exit_code, True), str(checked)
        await world.ok("local", "fault", "clear")
    for messenger in ("telegram", "whatsapp", "discord"):
        registered = await world.ok("messenger", "register", messenger, "--reason", "test", "--json")
        assert registered.json["url"].endswith(f"/webhooks/{messenger}")
    refused = await world.run("messenger", "register", "slack", "--reason", "test")
    assert (refused.exit_code, "/webhooks/slack at https://api.slack.com/apps/A0LOCAL0001" in refused.stderr) == (
        3,
        True,
    )
    assert "webhook_registered" in (await world.ok("audit", "log")).stdout


@pytest.mark.machines
@pytest.mark.turns(540)
async def test_a_message_is_answered_by_a_real_agent(tmp_path_factory: pytest.TempPathFactory) -> None:
    async with local_world(tmp_path_factory.mktemp("home"), vendors=True) as world:
        await world.ok("provision", "ada", "--plan", "light")
        async with connected(world) as (phone, _):
            await phone.say("good **morning**")
            await phone.hears("YOU SAID: good", _LATER_S)
            await phone.say("RUN: echo proof-$((6*7))-$(hostname)")
            [machine] = await world.machines()
            answer = await phone.hears(f"proof-42-{machine['slug']}", _LATER_S)
            await expect(answer).not_to_contain_text("home channel")
            await phone.say(f"CALL: cronjob {json.dumps(_JOB)}")
            await phone.hears('"success": true', _LATER_S)
            job = await phone.hears("say words of a job\n\nTo stop", _LATER_S)
            await expect(job).to_contain_text("YOU SAID")
            states = {row["state"] for row in (await world.ok("message", "list", "--json")).json["messages"]}
            assert states == {"answered", "handled", "sent"}
