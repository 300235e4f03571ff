"""The other endpoints: what users see of their agent, its conversations, files, jobs, use and settings."""

from datetime import UTC, date, datetime

import pytest

from hermesops.model.billing.model_usage import Usage
from hermesops.model.fleet.instance import InstanceSettings, InstanceStatus
from hermesops.model.plan import Plan
from hermesops.store.registry.repositories.credentials.model_usage import Budget, RouterLedger
from hermesops.users.agent_settings.service import ChangedMeanwhileError, patch_of, tag_of
from hermesops.users.chat import carrier
from hermesops.users.chat import service as chat_service
from hermesops.users.user_requests import service
from tests.support.users.api import Client, UsersApi

PNG = b"\x89PNG\r\n\x1a\nx"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look again at once."""
    monkeypatch.setattr(carrier, "_AGAIN_S", 0.02)
    monkeypatch.setattr(service, "DECIDED_WITHIN_S", 0.0)


async def test_conversations_are_listed_read_on_and_deleted(api: UsersApi, ada: Client) -> None:
    assert (await ada.ask("GET", "/chat/conversations")).json() == []
    await ada.whole("first", conversation="one")
    await ada.whole("second", conversation="two")
    api.agent.say("telegram_1", "user", "elsewhere")
    listed = (await ada.ask("GET", "/chat/conversations")).json()
    assert {(each["name"], each["title"], each["open_turn"]) for each in listed} == {
        ("one", "About first", None),
        ("two", "About second", None),
    }
    shown = (await ada.ask("GET", "/chat/conversations/one")).json()
    assert [(each["role"], each["text"]) for each in shown["messages"]] == [
        ("user", "first"),
        ("assistant", "You said it: first"),
    ]
    assert shown["open_turn"] is None
    assert (await ada.ask("GET", "/chat/conversations/none")).json() == {
        "messages": [],
        "open_turn": None,
        "unanswered": None,
    }
    api.agent.says = False
    async with ada.send("third", conversation="two") as events:
        turn = (await anext(events)).data["id"]
        assert (await ada.ask("GET", "/chat/conversations/two")).json()["open_turn"] == turn
        busy = await ada.ask("DELETE", "/chat/conversations/two")
        assert (busy.status_code, busy.json()["code"]) == (409, "conversation-busy")
    assert (await ada.ask("DELETE", "/chat/conversations/one")).status_code == 204
    assert "web_one" not in api.agent.sessions
    assert (await ada.ask("DELETE", "/chat/conversations/one")).status_code == 404
    assert [each["name"] for each in (await ada.ask("GET", "/chat/conversations")).json()] == ["two"]


async def test_conversations_are_listed_without_titles_while_the_agent_takes_long_to_name_them(
    api: UsersApi, ada: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ada.whole("first", conversation="one")
    monkeypatch.setattr(chat_service, "_TITLES_S", 0.1)
    api.agent.lists = False
    listed = (await ada.ask("GET", "/chat/conversations", timeout=15)).json()
    assert [(each["name"], each["title"]) for each in listed] == [("one", "")]


async def test_files_go_with_their_message_to_the_agent(api: UsersApi, ada: Client) -> None:
    image = (await ada.ask("POST", "/chat/files", files={"file": ("p.png", PNG)})).json()
    text = (await ada.ask("POST", "/chat/files", files={"file": ("../a.txt", b"my notes")})).json()
    assert ({**image, "id": ""}, {**text, "id": ""}) == (
        {"id": "", "name": "p.png", "bytes": 9, "kind": "image"},
        {"id": "", "name": "a.txt", "bytes": 8, "kind": "text"},
    )
    refused = await ada.ask("POST", "/chat/files", files={"file": ("report.pdf", b"%PDF\xff")})
    assert (refused.status_code, refused.json()["detail"].partition(":")[0]) == (422, "report.pdf")
    await ada.whole("look", files=[image["id"], text["id"]])
    [part, picture] = api.agent.run.body["input"][0]["content"]
    assert part["text"] == "look\n\nFile a.txt:\n```\nmy notes\n```"
    assert picture["image_url"]["url"] == "data:image/png;base64,iVBORw0KGgp4"
    again = {"message": "look", "conversation": "main", "client_key": "k2", "files": [image["id"]]}
    assert (await ada.ask("POST", "/chat", json=again)).status_code == 422


async def test_jobs_are_the_agents_own(api: UsersApi, ada: Client) -> None:
    job = {"cron": "0 9 * * 1", "prompt": "write the report", "enabled": False}
    added = await ada.ask("POST", "/cron", json=job)
    assert added.status_code == 201
    assert {**added.json(), **job} == added.json()
    assert added.json()["name"] == "write the report"
    for schedule, code in (("whenever", "invalid"), ("@reboot", "invalid")):
        refused = await ada.ask("POST", "/cron", json={**job, "cron": schedule})
        assert (refused.status_code, refused.json()["code"]) == (422, code)
    assert (await ada.ask("GET", "/cron")).json() == [added.json()]
    assert (await ada.ask("DELETE", f"/cron/{added.json()['id']}")).status_code == 204
    assert (await ada.ask("DELETE", f"/cron/{added.json()['id']}")).status_code == 404
    assert not api.agent.jobs


async def test_an_agent_and_its_use_are_shown(api: UsersApi, ada: Client, registry_url: str) -> None:
    shown = (await ada.ask("GET", "/instance")).json()
    assert {name: shown[name] for name in ("id", "plan", "status", "region", "heartbeat_age_s")} == {
        "id": api.ada.id,
        "plan": "light",
        "status": "running",
        "region": "hel1",
        "heartbeat_age_s": None,
    }
    assert datetime.fromisoformat(shown["since"]) == api.relay.clock().astimezone(UTC)
    api.relay.registry.model_usage.set_budgets({Plan.LIGHT: Budget(None, 20_000_000)}, why="test")
    rows = [
        Usage(api.ada.id, day, "gpt-4o", "openai", "200", requests=2, input_tokens=10, output_tokens=5, micros=700)
        for day in (date(2026, 1, 1), date(2025, 12, 31))
    ]
    RouterLedger(registry_url).write("b1", rows)
    await ada.whole("hello")
    assert (await ada.ask("GET", "/usage")).json() == {
        "period": "2026-01",
        "tokens_in": 10,
        "tokens_out": 5,
        "cost_micros": 700,
        "budget_micros": 20_000_000,
        "turns": 1,
    }
    api.relay.registry.instances.set_status(api.ada.id, InstanceStatus.SUSPENDED)
    assert (await ada.ask("GET", "/instance")).json()["status"] == "suspended"
    for path in ("/chat/conversations/main", "/cron"):
        assert (await ada.ask("GET", path)).json()["code"] == "agent-suspended"


async def test_settings_are_shown_with_their_tag_and_changed_under_it(api: UsersApi, ada: Client) -> None:
    shown = await ada.ask("GET", "/settings")
    tag = shown.headers["etag"].strip('"')
    assert tag == tag_of(api.relay.registry.instance_secrets.settings(api.ada.id))
    assert shown.json()["models"]
    missing = await ada.ask("PATCH", "/settings", json={"personality": "brief"})
    assert (missing.status_code, missing.json()["code"]) == (422, "malformed")
    response = await ada.ask("PATCH", "/settings", json={"personality": "brief"}, headers={"if-match": f'"{tag}"'})
    assert (response.status_code, response.json()["operation"]) == (202, None), "a worker has not looked yet"
    request = (await ada.ask("GET", f"/requests/{response.json()['request']}")).json()
    assert (request["kind"], request["state"], request["url"]) == ("settings", "queued", None)
    settings = InstanceSettings(personality="kind", messengers={"TELEGRAM_BOT_TOKEN": "x"})
    patched = patch_of({"personality": "brief"}, tag_of(settings))(settings)
    assert (patched.personality, patched.messengers) == ("brief", settings.messengers)
    with pytest.raises(ChangedMeanwhileError, match="changed meanwhile"):
        patch_of({"personality": "brief"}, tag)(settings)
