"""The world's stand-in of a model provider, over HTTP: what workers ask it about keys, and what agents ask it."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from hermesops.agents.model_providers.service import ModelProviders, UnverifiedKeyError
from hermesops.base.network.public_hosts import internet
from hermesops.errors import UsageError
from hermesops.localcloud.vendors.model_provider import (
    LARGEST_BODY,
    MODELS,
    MOST_REQUESTS,
    PREFIX,
    WINDOW_S,
    LocalModelProvider,
)
from hermesops.model.fleet.instance import Instance
from hermesops.model.providers.table import CUSTOM
from hermesops.store.registry import Registry
from hermesops.vendor.model_providers.client import ModelProviderClient
from tests.support.real.stores.registries import placed
from tests.support.suite.cases import each_case
from tests.support.users.api import served

KEY, OTHER = "world-key-0123456789abcdef", "world-key-fedcba9876543210"
HELLO = {"model": MODELS[0], "messages": [{"role": "user", "content": "hello"}]}


@dataclass
class World:
    """The provider at its address, with one key at first.

    Attributes:
        now: Of its clock.
    """

    url: str
    keys: Path
    registry: Registry
    now: list[float]

    @property
    def providers(self) -> ModelProviders:
        return ModelProviders(self.registry, ModelProviderClient(internet(), lambda: self.url))

    async def choose(self, ada: Instance, **changes: Any) -> str:  # noqa: ANN401 - as ``completed`` takes them
        parts: dict[str, Any] = {"model": MODELS[0], "key": KEY, "base_url": self.url}
        may_be_unknown = changes.pop("may_be_unknown", False)
        choice = self.providers.completed(ada, CUSTOM, **{**parts, **changes})
        return (await self.providers.verified(choice, may_be_unknown=may_be_unknown)).verified_at

    async def ask(self, body: Any = None, *, key: str = KEY, path: str = "/chat/completions") -> httpx.Response:  # noqa: ANN401 - JSON
        method = "GET" if path == "/models" else "POST"
        headers = {"authorization": f"Bearer {key}"}
        content = body if isinstance(body, bytes) else json.dumps(HELLO if body is None else body).encode()
        async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
            return await client.request(method, f"{self.url}{path}", headers=headers, content=content)


@pytest.fixture
async def world(registry: Registry, tmp_path: Path) -> AsyncIterator[World]:
    keys, now = tmp_path / "own-provider.keys", [0.0]
    keys.write_text(f"{KEY}\n")
    provider = LocalModelProvider(keys, lambda: now[0])
    async with served(Starlette(routes=[Mount(PREFIX, routes=provider.routes())])) as url:
        yield World(f"{url}{PREFIX}", keys, registry, now)


@pytest.fixture
def ada(registry: Registry) -> Instance:
    return placed(registry)


async def test_a_key_of_the_world_is_accepted_and_others_are_refused(world: World, ada: Instance) -> None:
    assert await world.choose(ada)
    for may_be_unknown in (False, True):
        with pytest.raises(UsageError, match="refuses the key"):
            await world.choose(ada, key=OTHER, may_be_unknown=may_be_unknown)


async def test_keys_are_made_and_taken_out_while_it_runs(world: World, ada: Instance) -> None:
    world.keys.write_text(f"{KEY}\n{OTHER}\n")
    assert await world.choose(ada, key=OTHER)
    world.keys.write_text(f"{OTHER}\n")
    with pytest.raises(UsageError, match="refuses the key"):
        await world.choose(ada)
    world.keys.unlink()
    assert (await world.ask(key=OTHER)).status_code == 401


async def test_a_model_that_it_lacks_is_unknown(world: World, ada: Instance) -> None:
    with pytest.raises(UnverifiedKeyError, match="lists no model my-model"):
        await world.choose(ada, model="my-model")


async def test_a_key_that_asks_too_often_is_unknown_until_its_minute_is_over(world: World, ada: Instance) -> None:
    world.keys.write_text(f"{KEY}\n{OTHER}\n")
    statuses = [(await world.ask(path="/models")).status_code for _ in range(MOST_REQUESTS + 1)]
    assert statuses == [200] * MOST_REQUESTS + [429]
    limited = await world.ask()
    assert limited.json()["error"]["code"] == "rate_limit_exceeded"
    assert limited.headers["retry-after"] == f"{WINDOW_S:.0f}"
    with pytest.raises(UnverifiedKeyError, match="too many requests"):
        await world.choose(ada)
    assert await world.choose(ada, key=OTHER), "the limit is a key's"
    world.now[0] += WINDOW_S
    assert await world.choose(ada)


async def test_only_the_worlds_own_address_may_be_none_of_the_internet(world: World, ada: Instance) -> None:
    base, port = world.url.rpartition(":")[::2]
    for address in (
        f"{world.url}/x",
        f"{base}:1{port[1:]}",
        world.url.replace("127.0.0.1", "127.0.0.2"),
        "http://10.0.0.1/v1",
    ):
        with pytest.raises(UsageError, match="an address that begins with https"):
            await world.choose(ada, base_url=address)
    elsewhere = ModelProviders(world.registry, ModelProviderClient(internet()))
    with pytest.raises(UsageError, match="an address that begins with https"):
        elsewhere.completed(ada, CUSTOM, model=MODELS[0], key=KEY, base_url=world.url)
    with pytest.raises(UsageError, match="has an address of its own"):
        world.providers.completed(ada, "deepseek", model="deepseek-chat", key="sk-0123456789", base_url=world.url)


async def test_an_agents_question_is_answered_whole_and_as_a_stream(world: World) -> None:
    whole = (await world.ask()).json()
    assert whole["choices"][0]["message"]["content"] == "YOU SAID: hello"
    assert whole["usage"]["total_tokens"] > 0
    lines = (await world.ask({**HELLO, "stream": True})).text.splitlines()
    events = [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]
    pieces = [choice["delta"].get("content") or "" for event in events for choice in event["choices"]]
    assert ("".join(pieces), lines[-2]) == ("YOU SAID: hello", "data: [DONE]")
    tools = [{"type": "function", "function": {"name": "terminal"}}, 7, {"function": 7}]
    called = (await world.ask({**HELLO, "messages": [{"role": "user", "content": "RUN: ls"}], "tools": tools})).json()
    assert called["choices"][0]["finish_reason"] == "tool_calls"


@each_case(
    ("body", "status", "code"),
    [
        (b"no json", 400, "invalid_value"),
        (b"[" * 100_000, 400, "invalid_value"),
        ([], 400, "invalid_value"),
        ({"model": MODELS[0]}, 400, "invalid_value"),
        ({**HELLO, "messages": []}, 400, "invalid_value"),
        ({**HELLO, "messages": ["x"]}, 400, "invalid_value"),
        ({**HELLO, "messages": [{}] * 4_001}, 400, "invalid_value"),
        ({**HELLO, "model": "gpt-5.2"}, 404, "model_not_found"),
        ({**HELLO, "model": 7}, 404, "model_not_found"),
        ({**HELLO, "model": {}}, 404, "model_not_found"),
        (b" " * (LARGEST_BODY + 1), 413, "request_too_large"),
    ],
)
async def test_what_is_no_request_is_refused_in_openais_form(
    world: World,
    body: Any,  # noqa: ANN401 - JSON
    status: int,
    code: str,
) -> None:
    answer = await world.ask(body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


@pytest.mark.parametrize("authorization", ["", "Bearer", f"Basic {KEY}", KEY, f"Bearer {KEY}x", f"Bearer {KEY[:-1]}"])
async def test_nothing_but_a_whole_key_opens_it(world: World, authorization: str) -> None:
    world.keys.write_text(f"{KEY}\n\n")
    async with httpx.AsyncClient(trust_env=False, timeout=30, headers={"authorization": authorization}) as client:
        answer = await client.get(f"{world.url}/models")
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")


async def test_keys_and_words_are_in_no_answer_and_no_log(world: World, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        answers = [await world.ask(path="/models"), await world.ask(key=OTHER), await world.ask({"model": "x"})]
        await asyncio.gather(*(world.ask() for _ in range(5)))
    for answer in answers:
        assert KEY not in answer.text
        assert OTHER not in answer.text
    assert KEY not in caplog.text
    assert "hello" not in caplog.text
