"""A user's own model provider by the API: asked by a worker, saved with its key, answered without it, and removed."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from hermesops.base.waiting import Pending, until
from hermesops.model.providers.table import BY_ID, PROVIDERS
from hermesops.store.registry.schema.user_tables import user_requests
from tests.support.users.api import WORLD_PROVIDER, Client, UsersApi
from tests.support.users.model_provider import StandInProvider, key_for, standing_in
from tests.support.users.settings_worker import SettingsWorker, settings_worker

OPENAI = BY_ID["openai"]
KEY = key_for(OPENAI, "canary-of-the-key")
REQUEST = {"id": "openai", "model": "gpt-5.2", "key": KEY}


@pytest.fixture
async def provider(tmp_path: Path) -> AsyncIterator[StandInProvider]:
    async with standing_in(tmp_path) as provider:
        provider.keys, provider.models = {KEY}, (OPENAI.example, "gpt-5.2-mini")
        yield provider


@pytest.fixture(autouse=True)
async def worker(api: UsersApi, provider: StandInProvider) -> AsyncIterator[SettingsWorker]:
    async with settings_worker(api, provider.client) as worker:
        yield worker


async def patched(ada: Client, *, tag: str = "", **provider: object) -> dict[str, Any]:
    """Ask for a provider, under the present tag unless it is given; the request once it has ended, or the refusal."""
    tag = tag or (await ada.ask("GET", "/settings")).headers["etag"]
    response = await ada.ask("PATCH", "/settings", json={"provider": provider}, headers={"if-match": tag})
    answer: dict[str, Any] = response.json()
    if response.status_code != 202:
        return answer

    async def ended() -> dict[str, Any] | Pending[dict[str, Any]]:
        request: dict[str, Any] = (await ada.ask("GET", f"/requests/{answer['request']}")).json()
        return request if request["state"] in {"done", "refused"} else Pending(request["state"])

    return await until(ended, what="the end of the request", timeout_s=30, every_s=0.05)


async def shown(ada: Client) -> Any:  # noqa: ANN401 - JSON
    async def fresh() -> dict[str, Any] | Pending[dict[str, Any]]:
        settings: dict[str, Any] = (await ada.ask("GET", "/settings")).json()
        return Pending("stale") if settings.get("stale", True) else settings

    return (await until(fresh, what="the settings", timeout_s=30, every_s=0.05))["provider"]


async def test_a_provider_is_verified_saved_shown_without_its_key_and_removed(
    api: UsersApi, ada: Client, provider: StandInProvider, capfd: pytest.CaptureFixture[str]
) -> None:
    settings = (await ada.ask("GET", "/settings")).json()
    assert (settings["provider"], [row["id"] for row in settings["providers"]]) == (None, [row.id for row in PROVIDERS])
    assert (await patched(ada, **REQUEST))["state"] == "done"
    assert len(provider.asked) == 1
    answer = await shown(ada)
    assert answer == {
        "id": "openai",
        "title": "OpenAI",
        "model": "gpt-5.2",
        "base_url": None,
        "verified_at": answer["verified_at"],
    }
    secrets = api.relay.registry.instance_secrets
    choice = secrets.settings(api.ada.id).provider
    assert choice is not None
    assert (choice.key, bool(choice.verified_at)) == (KEY, True)
    # The same key for another model is not written again.
    assert (await patched(ada, id="openai", model="gpt-5.2-mini"))["state"] == "done"
    changed = secrets.settings(api.ada.id).provider
    assert changed is not None
    assert (changed.model, changed.key) == ("gpt-5.2-mini", KEY)
    assert (await patched(ada, id=""))["state"] == "done"
    assert await shown(ada) is None
    assert secrets.settings(api.ada.id).provider is None
    logs = capfd.readouterr()
    tables = sa.MetaData()
    with api.all_rows.reading() as connection:
        tables.reflect(connection)
        rows = repr([tuple(row) for table in tables.sorted_tables for row in connection.execute(sa.select(table))])
        bodies = connection.execute(sa.select(user_requests.c.body)).scalars().all()
    for place in (rows, logs.out, logs.err, repr(api.relay.registry.audit.list()), repr(choice), str(answer)):
        assert "canary-of-the-key" not in place
    assert bodies == [None] * 3, "not even sealed, once a request has ended"


async def test_a_refused_key_is_not_saved_and_an_unknown_one_only_if_the_user_says_so(
    ada: Client, provider: StandInProvider
) -> None:
    refused = await patched(ada, **REQUEST | {"key": key_for(OPENAI, "unknown-to-openai")})
    assert (refused["code"], "refuses the key" in refused["detail"]) == ("invalid", True)
    provider.status = 503
    unknown = await patched(ada, **REQUEST)
    assert (unknown["code"], "save the key unverified" in unknown["detail"]) == ("unverified", True)
    assert await shown(ada) is None
    assert (await patched(ada, **REQUEST, unverified=True))["state"] == "done"
    assert (await shown(ada))["verified_at"] is None


async def test_a_provider_is_asked_once_however_often_the_machine_does_not_answer(
    api: UsersApi, ada: Client, provider: StandInProvider, worker: SettingsWorker
) -> None:
    worker.checks_fail, worker.changes_fail = 2, 3
    assert (await patched(ada, **REQUEST))["state"] == "done"
    assert (worker.checks_fail, worker.changes_fail, len(provider.asked)) == (0, 0, 1)
    assert (await shown(ada))["verified_at"] is not None
    with api.all_rows.reading() as connection:
        content = connection.execute(sa.select(user_requests.c.body, user_requests.c.answer)).one()
    assert tuple(content) == (None, None)


async def test_no_provider_is_asked_about_settings_that_were_changed_meanwhile(
    ada: Client, provider: StandInProvider
) -> None:
    refused = await patched(ada, tag='"' + "0" * 32 + '"', **REQUEST)
    assert (refused["code"], provider.asked) == ("changed-meanwhile", [])


async def test_contradictions_are_refused_before_anything_is_kept(
    api: UsersApi, ada: Client, provider: StandInProvider
) -> None:
    for changes, words in (
        ({"key": "sk-or-v1-0123456789abcdef"}, "choose openrouter"),
        ({"model": "claude-sonnet-4-5"}, "choose anthropic"),
        ({"base_url": "https://models.example.org/v1"}, "leave yours out"),
        ({"id": "openai-codex"}, "make a key of the API"),
    ):
        refused = await patched(ada, **REQUEST | changes)
        assert (refused["status"], refused["code"]) == (422, "invalid")
        assert words in refused["detail"]
    for malformed in ({"id": "openai", "key": 7}, {"id": "openai", "more": ""}, {"id": "o" * 99}, {"key": KEY}):
        assert (await patched(ada, **malformed))["code"] == "malformed"
    assert not provider.asked
    with api.all_rows.reading() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(user_requests)).scalar_one() == 0
    keyless = await patched(ada, id="openai", model="gpt-5.2")
    assert (keyless["code"], keyless["detail"]) == ("invalid", "give the key of this provider")


async def test_the_address_of_a_local_world_is_left_to_workers_and_no_other_one_in_clear(
    api: UsersApi, ada: Client, provider: StandInProvider
) -> None:
    def kept() -> int:
        with api.all_rows.reading() as connection:
            return int(connection.execute(sa.select(sa.func.count()).select_from(user_requests)).scalar_one())

    own = {"id": "custom", "model": "world-small", "key": "world-key-0123456789"}
    for address in (f"{WORLD_PROVIDER}/x", WORLD_PROVIDER.replace(":9/", ":10/"), "http://10.0.0.1/v1"):
        assert (await patched(ada, **own, base_url=address))["code"] == "invalid", address
    assert kept() == 0
    taken = await patched(ada, **own, base_url=WORLD_PROVIDER)
    assert ("https://" in str(taken), kept()) == (True, 1), "refused by a worker, which has no such world"
    assert (provider.asked, await shown(ada)) == ([], None)
