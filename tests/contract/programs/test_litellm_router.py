"""LiteLLM with our hooks before providers that fail, and before clients that mean it ill."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from hermesops.base.waiting import Pending, pause, until
from hermesops.model.billing.model_usage import Usage
from hermesops.model.billing.route import ROUTES, ModelRoute, issue_token
from hermesops.model.fleet.instance import Instance
from hermesops.model.plan import Plan
from hermesops.programs.model_router.accounts.reservations import SETTLED_WITHIN_S
from hermesops.store.registry import Registry
from hermesops.store.registry.repositories.credentials.model_usage import Budget
from tests.support.real.python_environments import LITELLM
from tests.support.real.router.litellm_router import KEYS, Providers, RealRouter
from tests.support.real.stores.registries import placed

pytestmark = [pytest.mark.postgres, pytest.mark.turns(70)]

CANARY = "yak-canary-that-nobody-may-keep"
ROUTE_OF = {"anthropic": "claude-haiku", "openai": "gpt-4o", "gemini": "gemini-flash"}


@pytest.mark.parametrize("route", ROUTES, ids=lambda price: price.name)
def test_a_route_is_a_model_that_its_provider_offers_at_the_price_in_litellms_list(route: ModelRoute) -> None:
    path = LITELLM.python()
    assert path
    [file] = path.parent.parent.glob("lib/*/site-packages/litellm/model_prices_and_context_window_backup.json")
    listed = json.loads(file.read_text())
    names = {"gemini": f"gemini/{route.provider_model}"}
    model = listed[names.get(route.provider, route.provider_model)]
    per_million = [round(model[f"{way}_cost_per_token"] * 1e6, 6) for way in ("input", "output")]
    assert per_million == [route.input_price, route.output_price]
    kept = [model.get(f"cache_creation_input_token_cost{age}", 0) * 1e6 for age in ("", "_above_1hr")]
    assert [round(price, 6) for price in kept] == [route.cache_write_price, route.cache_hour_price]
    assert route.context_tokens <= model["max_input_tokens"]
    assert model["litellm_provider"] == route.provider


@dataclass
class Agent:
    """Somebody with a good token."""

    router: RealRouter
    registry: Registry
    instance: Instance

    @property
    def token(self) -> str:
        """Theirs."""
        return issue_token(self.router.secret, self.instance.id, 1, int(time.time()) + 600)

    def http(self, **headers: str) -> httpx.AsyncClient:
        """A client with it."""
        bearer = {"Authorization": f"Bearer {self.token}"}
        return httpx.AsyncClient(base_url=self.router.url, headers=bearer | headers, timeout=60, trust_env=False)

    async def ask(self, model: str = "claude-haiku", **fields: object) -> httpx.Response:
        """One request for a completion."""
        request = {"model": model, "messages": [{"role": "user", "content": CANARY}], **fields}
        async with self.http() as http:
            return await http.post("/chat/completions", json=request)

    async def used(self, is_enough: Callable[[list[Usage]], bool] = bool) -> list[Usage]:
        """What the registry says that they used, once that is enough."""

        async def check() -> list[Usage] | Pending[list[Usage]]:
            rows = self.registry.model_usage.list(datetime.now(UTC).date(), instance_id=self.instance.id)
            return list(rows) if is_enough(list(rows)) else Pending(str(rows))

        return await until(check, what="usage in the registry", timeout_s=20, every_s=0.3)

    async def settled(self) -> list[Usage]:
        """What they used, once all of it is there."""
        before: list[Usage] = []

        async def check() -> list[Usage] | Pending[list[Usage]]:
            nonlocal before
            rows = list(self.registry.model_usage.list(datetime.now(UTC).date(), instance_id=self.instance.id))
            usages, before = before, rows
            is_pending = "hermes_router_usage_pending_bytes 0\n" not in self.router.metrics
            return Pending(str(rows)) if is_pending or not rows or rows != usages else rows

        return await until(check, what="no more usage", timeout_s=60, every_s=4)


@pytest.fixture
async def agent(with_litellm: tuple[RealRouter, Registry], providers: Providers) -> Agent:
    providers.reset()
    router, registry = with_litellm
    agent = Agent(router, registry, placed(registry, f"agent-{time.monotonic_ns()}"))

    async def check() -> bool | Pending[bool]:
        # Providers that failed in the test before rest for some seconds.
        providers.reset()
        answers = [await agent.ask(model) for model in ROUTE_OF.values()]
        wanted = [answer.status_code == 200 for answer in answers]
        return True if all(wanted) and providers.asked == list(ROUTE_OF) else Pending(str(providers.asked))

    await until(check, what="all providers in use", timeout_s=60, every_s=1)
    providers.reset()
    return agent


def content(answer: httpx.Response) -> str:
    assert answer.status_code == 200, answer.text
    return str(answer.json()["choices"][0]["message"]["content"])


async def test_each_route_asks_its_provider_with_the_platforms_key_and_nothing_of_the_agents(
    agent: Agent, providers: Providers
) -> None:
    for provider, route in ROUTE_OF.items():
        assert content(await agent.ask(route)) == f"{provider} answers"
    assert providers.keys == KEYS
    assert agent.token.rpartition(".")[2] not in json.dumps(providers.bodies)


@pytest.mark.parametrize("act", ["401", "429", "500", "503", "garbage", "hang"])
async def test_a_provider_that_fails_is_followed_by_the_next_and_told_apart(
    agent: Agent, providers: Providers, act: str
) -> None:
    providers.reset(anthropic=act)
    assert content(await agent.ask()) == "openai answers"
    assert providers.asked[0] == "anthropic"
    assert providers.asked[-1] == "openai"
    text = {"hang": "timeout", "garbage": r"\w+"}.get(act, act)
    wanted = rf'hermes_router_provider_answers_total{{model="claude-haiku",provider="anthropic",status="{text}"}} [1-9]'
    assert re.search(wanted, agent.router.metrics), agent.router.metrics
    assert str(agent.instance.id) not in agent.router.metrics
    rows = await agent.used(lambda rows: any(row.provider == "openai" for row in rows))
    assert {row.provider for row in rows if row.outcome == "200"} >= {"openai"}


@pytest.mark.parametrize("act", ["503", "hang", "drip"])
async def test_a_stream_that_does_not_begin_is_taken_from_the_next(
    agent: Agent, providers: Providers, act: str
) -> None:
    providers.reset(anthropic=act)
    answer = await agent.ask(stream=True)
    pieces = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
    text = "".join(piece["choices"][0]["delta"].get("content") or "" for piece in pieces if piece.get("choices"))
    if act == "drip" and not text:
        # Bytes keep coming: cut off when its time is up, and never taken for an answer.
        assert "[DONE]" not in answer.text or "error" in answer.text
        return
    assert text == "openai answers"


async def test_two_that_fail_are_followed_by_the_third(agent: Agent, providers: Providers) -> None:
    providers.reset(anthropic="500", openai="429")
    assert content(await agent.ask()) == "gemini answers"


@pytest.mark.parametrize("act", ["500", "503", "hang"])
async def test_a_provider_that_goes_on_failing_is_left_alone_and_takes_no_other_with_it(
    agent: Agent, providers: Providers, act: str
) -> None:
    """LiteLLM counts its own refusals to ask the failing one against whoever answers instead."""
    providers.reset(anthropic=act)
    before = re.findall(r'answers_total{.*provider="(?:openai|gemini)",status="(?!200).*', agent.router.metrics)
    for _ in range(4):
        answers = await asyncio.gather(*(agent.ask() for _ in range(5)))
        assert {content(answer) for answer in answers} == {"openai answers"}
    assert 1 <= providers.asked.count("anthropic") <= 10
    for provider in ("openai", "gemini"):
        assert content(await agent.ask(ROUTE_OF[provider])) == f"{provider} answers"
    after = re.findall(r'answers_total{.*provider="(?:openai|gemini)",status="(?!200).*', agent.router.metrics)
    assert after == before


@pytest.mark.parametrize(
    ("act", "status", "code"),
    [("401", 502, "provider_refuses"), ("429", 429, "rate_limit_exceeded"), ("500", 502, "upstream_unavailable")],
)
async def test_where_all_fail_the_agent_is_told_what_and_never_that_its_token_is_bad(
    agent: Agent, providers: Providers, act: str, status: int, code: str
) -> None:
    providers.reset(anthropic=act, openai=act, gemini=act)
    answer = await agent.ask()
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert not [key for key in KEYS.values() if key in answer.text]
    assert CANARY not in answer.text


@pytest.mark.parametrize(("act", "expected"), [("401", {502}), ("429", {429}), ("500", {502, 503})])
async def test_a_cause_that_lasts_is_told_each_time_as_what_it_is(
    agent: Agent, providers: Providers, act: str, expected: set[int]
) -> None:
    """LiteLLM itself answers 429 of providers that it does not ask for a while."""
    providers.reset(anthropic=act, openai=act, gemini=act)
    assert {(await agent.ask()).status_code for _ in range(8)} <= expected


async def test_a_request_that_every_provider_finds_wrong_is_400_without_a_key_in_it(
    agent: Agent, providers: Providers
) -> None:
    providers.reset(anthropic="400", openai="400", gemini="400")
    answer = await agent.ask()
    assert answer.status_code == 400
    assert not [key for key in KEYS.values() if key in answer.text]


async def test_what_a_reader_who_left_was_sent_is_counted(agent: Agent, providers: Providers) -> None:
    before = sum(row.output_tokens for row in await agent.settled())
    providers.reset(anthropic="slow")
    body = {"model": "claude-haiku", "stream": True, "messages": [{"role": "user", "content": "x"}]}
    async with agent.http() as http, http.stream("POST", "/chat/completions", json=body) as stream:
        lines = stream.aiter_lines()
        for _ in range(12):
            await anext(lines)
    rows = await agent.used(lambda rows: sum(row.output_tokens for row in rows) > before)
    assert sum(row.input_tokens for row in rows) > 0


async def test_an_answer_that_nobody_waits_for_any_more_is_counted(agent: Agent, providers: Providers) -> None:
    before = sum(row.requests for row in await agent.settled())
    providers.reset(anthropic="late")
    body = {"model": "claude-haiku", "messages": [{"role": "user", "content": "x"}]}
    async with agent.http() as http:
        with pytest.raises(httpx.ReadTimeout):
            await http.post("/chat/completions", json=body, timeout=0.7)
    await agent.used(lambda rows: sum(row.requests for row in rows) > before)


@pytest.mark.parametrize(
    "fields",
    [
        {"api_base": "http://127.0.0.1:9"},
        {"base_url": "http://127.0.0.1:9"},
        {"api_key": "sk-mine"},
        {"mock_response": "free of charge"},
        {"fallbacks": ["gpt-4o"], "num_retries": 50},
        {"metadata": {"user_api_key_user_id": "somebody"}},
        {"litellm_metadata": {"user_api_key_user_id": "somebody"}, "user": "somebody"},
        {"callbacks": ["langfuse"], "success_callback": ["x"], "guardrails": ["x"]},
        {"extra_headers": {"x-api-key": "sk-mine"}, "custom_llm_provider": "openai", "timeout": 0.001},
    ],
)
async def test_what_a_request_says_beyond_its_conversation_reaches_nobody(
    agent: Agent, providers: Providers, fields: dict[str, Any]
) -> None:
    assert content(await agent.ask(**fields)) == "anthropic answers"
    assert providers.keys["anthropic"] == KEYS["anthropic"]
    rows = await agent.used(lambda rows: sum(row.requests for row in rows if row.model == "claude-haiku") >= 2)
    assert {row.instance_id for row in rows} == {agent.instance.id}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/key/generate"),
        ("GET", "/config/yaml"),
        ("GET", "/model/info"),
        ("GET", "/v1/model/info"),
        ("POST", "/v1/embeddings"),
        ("POST", "/v1/messages"),
        ("POST", "/v1/responses"),
        ("GET", "/openapi.json"),
        ("GET", "/ui/"),
        ("GET", "/metrics"),
        ("POST", "/anthropic/v1/messages"),
        ("POST", "/v1/chat/completions/"),
        ("POST", "//v1/chat/completions"),
        ("POST", "/v1/../key/generate"),
        ("GET", "/health/liveliness"),
        ("GET", "/debug/asyncio-tasks"),
    ],
)
async def test_no_other_path_of_litellm_is_open(agent: Agent, method: str, path: str) -> None:
    async with agent.http() as http:
        answer = await http.request(method, agent.router.url.removesuffix("/v1") + path, json={"model": "claude-haiku"})
    assert answer.status_code == 404, answer.text


async def test_a_giant_body_is_refused_and_others_are_served_meanwhile(agent: Agent) -> None:
    giant = json.dumps({"model": "claude-haiku", "messages": [{"role": "user", "content": "a" * (3 << 20)}]})
    async with agent.http() as http:
        refused, answer = await asyncio.gather(http.post("/chat/completions", content=giant), agent.ask())
    assert refused.status_code == 413
    assert content(answer)
    deep = b'{"model": "claude-haiku", "messages": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    async with agent.http() as http:
        assert (await http.post("/chat/completions", content=deep)).status_code == 400


async def test_a_body_that_drips_is_given_up(agent: Agent) -> None:
    async def dripping() -> AsyncIterator[bytes]:
        while True:
            yield b" "
            await pause(0.2)

    began = time.monotonic()
    async with agent.http() as http:
        try:
            answer = await http.post("/chat/completions", content=dripping())
            assert answer.status_code == 408
        except httpx.TransportError:
            pass  # the answer came while it was still sending
    assert time.monotonic() - began < 15


async def test_an_agent_has_so_many_requests_open_and_no_more(agent: Agent, providers: Providers) -> None:
    other = Agent(agent.router, agent.registry, placed(agent.registry, f"other-{time.monotonic_ns()}"))
    providers.reset(anthropic="late")
    answers = asyncio.gather(*(agent.ask() for _ in range(12)))
    theirs = await other.ask("gpt-4o")
    statuses = sorted(answer.status_code for answer in await answers)
    assert statuses == [200] * 8 + [429] * 4
    assert content(theirs) == "openai answers"


async def test_headers_without_end_are_refused(agent: Agent) -> None:
    async with agent.http(**{f"x-{number}": "a" * 1000 for number in range(200)}) as http:
        try:
            answer = await http.get("/models")
            assert answer.status_code in {400, 431}
        except httpx.TransportError:
            pass
    assert content(await agent.ask())


async def test_a_killed_router_loses_no_usage(agent: Agent, providers: Providers) -> None:
    before = sum(row.requests for row in await agent.settled())
    providers.reset()
    for _ in range(3):
        content(await agent.ask("gpt-4o"))
    await pause(0.3)  # LiteLLM tells of an answer after it
    agent.router.kill()
    agent.router.start()
    assert sum(row.requests for row in await agent.settled()) == before + 3


async def test_no_word_and_no_key_is_in_what_the_router_writes(agent: Agent, providers: Providers) -> None:
    providers.reset(anthropic="500", openai="garbage", gemini="401")
    await agent.ask()
    await agent.ask(stream=True)
    providers.reset(anthropic="cut")
    await agent.ask(stream=True)
    rows = await agent.used()
    folder = agent.router.folder
    files = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file() and file.parent.name != "secrets"}
    texts = {
        **{str(file): data.decode(errors="replace") for file, data in files.items()},
        "figures": agent.router.metrics,
    }
    for where, text in {**texts, "rows": str(rows)}.items():
        assert CANARY not in text, where
        assert not [key for key in KEYS.values() if key in text], where
        assert agent.token.rpartition(".")[2] not in text, where


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 20}]},
        {"tools": [{"googleSearch": {}}, {"url_context": {}}], "model": "gemini-flash"},
        {"tools": [{"type": "mcp", "server_url": "https://evil.example", "server_label": "x"}]},
        {"n": 128},
        {
            "messages": [
                {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://127.0.0.1:1/"}}]}
            ]
        },
    ],
)
async def test_what_is_paid_apart_or_would_be_fetched_reaches_no_provider(
    agent: Agent, providers: Providers, fields: dict[str, Any]
) -> None:
    assert (await agent.ask(**fields)).status_code == 400
    assert providers.asked == []


async def test_what_is_reserved_is_given_back_as_soon_as_the_cost_is_told(agent: Agent) -> None:
    """One answer of 8,192 tokens at most is all that the budget has room for; the real ones are short."""
    before = sum(row.micros for row in await agent.settled())
    agent.registry.model_usage.set_budgets({Plan.LIGHT: Budget(micros=before + 84_000)}, why="test")
    try:

        async def check_bounded() -> bool | Pending[bool]:
            statuses = sorted(
                response.status_code for response in await asyncio.gather(*(agent.ask() for _ in range(3)))
            )
            return True if statuses == [200, 429, 429] else Pending(str(statuses))

        async def check_free() -> bool | Pending[bool]:
            answer = await agent.ask()
            return True if answer.status_code == 200 else Pending(answer.text)

        await until(check_bounded, what="the budget is known", timeout_s=20, every_s=0.5)
        await until(check_free, what="the reservation is given back", timeout_s=SETTLED_WITHIN_S / 3, every_s=0.5)
    finally:
        agent.registry.model_usage.set_budgets({Plan.LIGHT: Budget()}, why="test")
