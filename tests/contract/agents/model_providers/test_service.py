"""A user's key before it is saved: a real registry, and a stand-in of every provider by TLS."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hermesops.agents.model_providers.service import ModelProviders, UnverifiedKeyError, using
from hermesops.base.network.public_hosts import is_of_internet
from hermesops.errors import HermesError, UsageError
from hermesops.model.fleet.instance import Instance, InstanceSettings
from hermesops.model.providers.choice import ProviderChoice
from hermesops.model.providers.provider import KeyCheck, ModelProvider
from hermesops.model.providers.table import BY_ID, CUSTOM, PROVIDERS
from hermesops.store.registry import Registry
from hermesops.vendor.model_providers import client as clients
from hermesops.vendor.model_providers.client import ModelProviderClient
from tests.support.real.stores.registries import placed
from tests.support.suite.cases import each_case
from tests.support.users.model_provider import OWN_ADDRESSES, StandInProvider, choice_of, key_for, standing_in

LISTED = [facts for facts in PROVIDERS if facts.check is KeyCheck.MODELS]


@pytest.fixture
async def provider(tmp_path: Path) -> AsyncIterator[StandInProvider]:
    async with standing_in(tmp_path) as provider:
        provider.keys = {key_for(facts) for facts in PROVIDERS}
        provider.models = tuple({facts.example for facts in PROVIDERS})
        yield provider


@pytest.fixture
def ada(registry: Registry) -> Instance:
    return placed(registry)


@pytest.fixture
def providers(registry: Registry, provider: StandInProvider) -> ModelProviders:
    return ModelProviders(registry, provider.client)


async def verified(
    providers: ModelProviders,
    ada: Instance,
    provider: str,
    *,
    may_be_unknown: bool = False,
    **parts: Any,  # noqa: ANN401 - texts
) -> ProviderChoice:
    """A complete choice, about which the provider was asked."""
    return await providers.verified(providers.completed(ada, provider, **parts), may_be_unknown=may_be_unknown)


async def chosen(providers: ModelProviders, ada: Instance, facts: ModelProvider, **changes: str) -> str:
    """When the provider accepted the key; the choice is complete, and of whatever is changed."""
    parts: dict[str, Any] = {"model": facts.example, "key": key_for(facts), "base_url": OWN_ADDRESSES.get(facts.id, "")}
    parts |= changes
    return (await verified(providers, ada, facts.id, **parts)).verified_at


async def test_each_provider_accepts_a_key_by_one_request_to_its_own_address(
    providers: ModelProviders, ada: Instance, provider: StandInProvider
) -> None:
    for facts in PROVIDERS:
        assert await chosen(providers, ada, facts)
        [(line, head, body)] = provider.asked
        provider.asked.clear()
        address = facts.base_url or OWN_ADDRESSES[facts.id]
        path = {
            KeyCheck.MODELS: f"/models{facts.list_query}",
            KeyCheck.KEY: "/key",
            KeyCheck.TURN: "/chat/completions",
        }[facts.check]
        assert f"https://{head['host']}{line.split()[1]}" == f"{address}{path}"
        assert key_for(facts) in head[facts.key_header]
        assert body is None or (body["model"], body["max_tokens"]) == (facts.example, 16)


async def test_a_refused_key_is_never_taken(providers: ModelProviders, ada: Instance) -> None:
    for facts in PROVIDERS:
        for may_be_unknown in (False, True):
            with pytest.raises(UsageError, match="refuses the key") as refused:
                await verified(
                    providers,
                    ada,
                    facts.id,
                    model=facts.example,
                    key=key_for(facts, "unknown-to-all"),
                    base_url=OWN_ADDRESSES.get(facts.id, ""),
                    may_be_unknown=may_be_unknown,
                )
            assert "unknown-to-all" not in refused.value.message


ANSWERS: dict[str, tuple[str, int, bytes, type, str]] = {
    "no credit": ("openai", 402, b"{}", UsageError, "no credit left"),
    "no quota": ("zai", 429, b'{"error": {"code": "insufficient_quota"}}', UsageError, "no credit left"),
    "no right": ("openai", 403, b"{}", UsageError, "rights of the key"),
    "google's bad key": ("gemini", 400, b'{"reason": "API_KEY_INVALID"}', UsageError, "refuses the key"),
    "no model": ("zai", 404, b"{}", UsageError, "has no model glm-5"),
    "other models": ("openai", 200, b'{"data": [{"id": "gpt-1"}]}', UnverifiedKeyError, "lists no model gpt-5.2"),
    "a used up limit": ("openrouter", 200, b'{"data": {"limit_remaining": 0}}', UsageError, "is used up"),
    "busy": ("openai", 429, b"{}", UnverifiedKeyError, "too many requests"),
    "broken": ("openai", 500, b"{}", UnverifiedKeyError, "answers 500"),
    "a redirect": ("openai", 302, b"", UnverifiedKeyError, "answers 302"),
    "no list there": (CUSTOM, 404, b"{}", UnverifiedKeyError, "no API in the form"),
    "no JSON": ("openai", 200, b"<html>", UnverifiedKeyError, "without a list"),
    "no list": ("openai", 200, b'{"data": {}}', UnverifiedKeyError, "without a list"),
    "half a list": ("openai", 200, b'{"data": [{"id": "x"}], "has_more": true}', UnverifiedKeyError, "a list"),
    "deep": ("openai", 200, b"[" * 5_000, UnverifiedKeyError, "without a list"),
    "numbers": (
        "openai",
        200,
        b'{"data": [1, null, {"id": 7}, {"id": "gpt-1"}]}',
        UnverifiedKeyError,
        "lists no model",
    ),
    "no turn": ("zai", 200, b'{"choices": "pong"}', UnverifiedKeyError, "another form"),
    "no key": ("openrouter", 200, b"[]", UnverifiedKeyError, "another form"),
    "hostile words": ("openai", 418, b"\xe2\x80\xae\x1b[2J", UnverifiedKeyError, "answers 418"),
}


@each_case("case", ANSWERS.values(), ids=ANSWERS)
async def test_answers(
    providers: ModelProviders, ada: Instance, provider: StandInProvider, case: tuple[str, int, bytes, type, str]
) -> None:
    name, provider.status, provider.body, kind, words = case
    with pytest.raises(HermesError, match=words) as raised:
        await chosen(providers, ada, BY_ID[name])
    assert type(raised.value) is kind
    assert raised.value.message.isprintable()


async def test_a_short_name_of_a_model_stands_for_its_versions(
    providers: ModelProviders, ada: Instance, provider: StandInProvider
) -> None:
    provider.models = ("claude-sonnet-4-5-20250929",)
    assert await chosen(providers, ada, BY_ID["anthropic"])
    with pytest.raises(UnverifiedKeyError, match="accepts the key, and lists no model claude-sonnet-4x;"):
        await chosen(providers, ada, BY_ID["anthropic"], model="claude-sonnet-4x")


async def test_an_answer_without_an_end_is_cut(
    providers: ModelProviders, ada: Instance, provider: StandInProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "LONGEST_ANSWER", 10_000)
    monkeypatch.setattr(clients, "WITHIN_S", 5.0)
    provider.is_endless = True
    with pytest.raises(UnverifiedKeyError, match="without a list"):
        await chosen(providers, ada, BY_ID["openai"])


async def test_a_provider_that_says_nothing_holds_nobody_up(
    providers: ModelProviders, ada: Instance, provider: StandInProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "WITHIN_S", 0.2)
    provider.is_silent = True
    with pytest.raises(UnverifiedKeyError, match="could not be asked"):
        async with asyncio.timeout(20):
            await chosen(providers, ada, BY_ID["openai"])


async def test_a_host_outside_the_internet_and_one_without_its_certificate_get_no_key(
    registry: Registry, ada: Instance, provider: StandInProvider
) -> None:
    for changed in (
        replace(provider.network, is_allowed=is_of_internet),
        replace(provider.network, verify=ssl.create_default_context),
    ):
        providers = ModelProviders(registry, ModelProviderClient(changed))
        with pytest.raises(UnverifiedKeyError, match="could not be asked"):
            await chosen(providers, ada, BY_ID[CUSTOM])
    assert not provider.asked


async def test_an_unknown_key_is_taken_unverified_only_where_that_is_allowed(
    providers: ModelProviders, ada: Instance, provider: StandInProvider
) -> None:
    provider.status = 503
    openai = BY_ID["openai"]
    with pytest.raises(UnverifiedKeyError, match="answers 503"):
        await chosen(providers, ada, openai)
    choosing = verified(providers, ada, "openai", model=openai.example, key=key_for(openai), may_be_unknown=True)
    assert (await choosing).verified_at == ""


async def test_the_present_key_stays_for_another_model_and_is_shown_to_nobody(
    providers: ModelProviders, ada: Instance, registry: Registry, provider: StandInProvider
) -> None:
    choice = choice_of(BY_ID["deepseek"])
    settings = using(choice)(InstanceSettings(personality="kind"))
    assert (settings.personality, settings.provider) == ("kind", choice)
    subject = f"instance/{ada.id}"
    registry.settings_changes.change(ada.id, settings, subject=subject, intent={}, why="test")
    assert registry.instance_secrets.settings(ada.id) == settings
    shown = providers.of(ada)
    assert shown is not None
    assert (shown.provider, shown.key) == ("deepseek", "")
    provider.models = ("deepseek-reasoner",)
    after = await verified(providers, ada, "deepseek", model="deepseek-reasoner")
    assert (after.model, after.key) == ("deepseek-reasoner", choice.key)
    with pytest.raises(UsageError, match="give the key"):
        await verified(providers, ada, "openai", model="gpt-5.2")
    cleared = using(None)(settings)
    registry.settings_changes.change(ada.id, cleared, subject=subject, intent={}, why="test")
    assert providers.of(ada) is None
    assert choice.key not in str(registry.audit.list())
