"""Both model routers, the local world's and LiteLLM with our hooks, over the same registry: the same cases for each."""

import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from hermesops.base.waiting import Pending, until
from hermesops.localcloud.drivers.sim.driver import SimDriver
from hermesops.model.billing.model_usage import Usage
from hermesops.model.billing.route import ROUTES, issue_token
from hermesops.model.fleet.instance import Instance
from hermesops.model.plan import Plan
from hermesops.store.registry import Registry
from hermesops.store.registry.repositories.credentials.model_usage import Budget, RouterLedger
from tests.support.real.router.litellm_router import Providers, registry_for_routers
from tests.support.real.stores import postgresql
from tests.support.real.stores.registries import placed
from tests.support.worlds.local.local_server import serving

pytestmark = [pytest.mark.postgres, pytest.mark.turns(55)]

CANARY = "zebra-canary-that-nobody-may-keep"


@dataclass
class Routed:
    """A router, its registry and who asks.

    Attributes:
        kept: Folders of all files that the router writes.
    """

    url: str
    secret: bytes
    registry: Registry
    instance: Instance
    kept: tuple[Path, ...]

    def token(self, generation: int = 1, *, life_s: int = 3600, secret: bytes = b"") -> str:
        """A token of the instance."""
        return issue_token(secret or self.secret, self.instance.id, generation, int(time.time()) + life_s)

    def http(self, token: str) -> httpx.AsyncClient:
        """A client with that token."""
        headers = {b"Authorization": f"Bearer {token}".encode("latin-1")} if token else {}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=30, trust_env=False)

    async def ask(self, token: str, **fields: object) -> httpx.Response:
        """One request for a completion."""
        request = {"model": ROUTES[0].name, "messages": [{"role": "user", "content": CANARY}], **fields}
        async with self.http(token) as http:
            return await http.post("/chat/completions", json=request)

    async def until_status(self, token: str, status: int, within_s: float = 40) -> httpx.Response:
        """Ask until that is the answer."""

        async def check() -> httpx.Response | Pending[httpx.Response]:
            answer = await self.ask(token)
            return answer if answer.status_code == status else Pending(f"{answer.status_code} {answer.text[:200]}")

        return await until(check, what=f"{status} of the router", timeout_s=within_s, every_s=0.3)

    def used(self) -> list[Usage]:
        """What the registry says was used."""
        return list(self.registry.model_usage.list(datetime.now(UTC).date() - timedelta(days=1)))

    async def until_used(self, is_enough: Callable[[list[Usage]], bool]) -> list[Usage]:
        """Wait for usage in the registry."""

        async def check() -> list[Usage] | Pending[list[Usage]]:
            usages = self.used()
            return usages if is_enough(usages) else Pending(str(usages))

        return await until(check, what="usage in the registry", timeout_s=20, every_s=0.3)


@pytest.fixture(params=["local", "litellm"])
async def routed(request: pytest.FixtureRequest, tmp_path: Path, providers: Providers) -> AsyncIterator[Routed]:
    providers.reset()
    name = f"user-{time.monotonic_ns()}"
    if request.param == "litellm":
        router, registry = request.getfixturevalue("with_litellm")
        yield Routed(router.url, router.secret, registry, placed(registry, name), (router.folder,))
        return
    with registry_for_routers(request.getfixturevalue("postgresql_server")) as (registry, url):
        instance = placed(registry, name)
        async with serving(tmp_path, SimDriver(tmp_path), ledger=RouterLedger(url)) as cloud:
            yield Routed(cloud.where.model_base_url, cloud.model_secret, registry, instance, (cloud.folder,))


async def test_an_answer_and_what_it_used(routed: Routed) -> None:
    answer = await routed.until_status(routed.token(), 200)
    document = answer.json()
    assert document["choices"][0]["message"]["content"]
    used = await routed.until_used(lambda rows: any(row.instance_id == routed.instance.id for row in rows))
    (row,) = [usage for usage in used if usage.instance_id == routed.instance.id and usage.outcome == "200"]
    assert (row.model, row.provider, row.requests) == (ROUTES[0].name, ROUTES[0].provider, 1)
    assert (row.input_tokens, row.output_tokens) == (
        document["usage"]["prompt_tokens"],
        document["usage"]["completion_tokens"],
    )
    assert row.micros == ROUTES[0].micros(row.input_tokens, row.output_tokens) > 0


async def test_a_stream_ends_as_openais_does_and_is_counted(routed: Routed) -> None:
    await routed.until_status(routed.token(), 200)
    answer = await routed.ask(routed.token(), stream=True)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text.rstrip().endswith("data: [DONE]")
    await routed.until_used(lambda rows: sum(r.requests for r in rows if r.instance_id == routed.instance.id) == 2)


async def test_the_models_are_listed_to_agents_alone(routed: Routed) -> None:
    await routed.until_status(routed.token(), 200)
    async with routed.http(routed.token()) as http:
        assert [model["id"] for model in (await http.get("/models")).json()["data"]] == [r.name for r in ROUTES]
    async with routed.http("") as http:
        assert (await http.get("/models")).status_code == 401


async def test_an_unknown_model_and_a_broken_request_are_400(routed: Routed) -> None:
    await routed.until_status(routed.token(), 200)
    answer = await routed.ask(routed.token(), model="gpt-1")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "model_not_found")
    async with routed.http(routed.token()) as http:
        for body in (b"", b"{", b"[]", b'{"model": "x"}', b'{"messages": []}', b'{"model":1,"messages":2}'):
            broken = await http.post("/chat/completions", content=body)
            assert broken.status_code == 400, body
            assert set(broken.json()["error"]) == {"message", "type", "param", "code"}


async def test_what_no_issuer_signed_opens_nothing(routed: Routed) -> None:
    await routed.until_status(routed.token(), 200)  # it knows which tokens are revoked, and says 503 before
    forged = routed.token(secret=b"another secret of at least 32 bytes")
    for token in ("", "sk-nonsense", "hm2.x.1.1." + "0" * 40, "\xb2" * 60, forged, routed.token(life_s=-1)):
        assert (await routed.ask(token)).status_code == 401, token


async def test_a_token_opens_for_its_own_instance_and_no_longer_than_it_exists(routed: Routed) -> None:
    await routed.until_status(routed.token(), 200)
    stranger = issue_token(routed.secret, type(routed.instance.id)("11111111-2222-4333-8444-555555555556"), 1, 2**33)
    assert (await routed.ask(stranger)).status_code == 401
    text = routed.token()
    assert (await routed.ask(text.replace(routed.instance.id, routed.instance.id[::-1]))).status_code == 401
    routed.registry.terminations.terminate(routed.instance.id)
    await routed.until_status(text, 401)


async def test_a_revoked_token_is_dead_within_seconds_and_the_next_one_lives(routed: Routed) -> None:
    old, new = routed.token(1), routed.token(2)
    await routed.until_status(old, 200)
    routed.registry.model_tokens.revoke(routed.instance.id, why="leaked")
    began = time.monotonic()
    await routed.until_status(old, 401)
    assert time.monotonic() - began < 10
    assert (await routed.ask(new)).status_code == 200


async def test_over_its_budget_an_agent_gets_429_with_words_and_others_go_on(routed: Routed) -> None:
    await routed.until_status(routed.token(), 200)
    await routed.until_used(lambda rows: any(row.instance_id == routed.instance.id for row in rows))
    other = placed(routed.registry, f"other-{time.monotonic_ns()}", Plan.HEAVY)
    routed.registry.model_usage.set_budgets({Plan.LIGHT: Budget(micros=1)}, why="test")
    try:
        refused = await routed.until_status(routed.token(), 429)
        error = refused.json()["error"]
        assert (error["code"], error["type"]) == ("insufficient_quota", "insufficient_quota")
        assert "budget" in error["message"]
        assert "starts anew on" in error["message"]
        theirs = issue_token(routed.secret, other.id, 1, int(time.time()) + 60)
        assert (await routed.ask(theirs)).status_code == 200
        routed.registry.model_usage.set_budgets({Plan.LIGHT: Budget(tokens=10**9)}, why="test")
        await routed.until_status(routed.token(), 200)
    finally:
        routed.registry.model_usage.set_budgets({Plan.LIGHT: Budget()}, why="test")


async def test_a_router_goes_on_while_the_database_is_away_and_loses_no_usage(
    routed: Routed, postgresql_server: postgresql.PostgreSql
) -> None:
    await routed.until_status(routed.token(), 200)
    await routed.until_used(lambda rows: any(row.instance_id == routed.instance.id for row in rows))
    before = sum(row.requests for row in routed.used() if row.instance_id == routed.instance.id)
    postgresql_server.stop()
    try:
        for _ in range(3):
            assert (await routed.ask(routed.token())).status_code == 200
    finally:
        postgresql_server.start()
    usages = await routed.until_used(
        lambda rows: sum(row.requests for row in rows if row.instance_id == routed.instance.id) >= before + 3
    )
    assert sum(row.requests for row in usages if row.instance_id == routed.instance.id) == before + 3


async def test_nothing_that_was_said_is_kept(routed: Routed) -> None:
    await routed.until_status(routed.token(), 200)
    await routed.ask(routed.token(), stream=True)
    await routed.until_used(lambda rows: any(row.instance_id == routed.instance.id for row in rows))
    for folder in routed.kept:
        for file in folder.rglob("*"):
            assert not file.is_file() or CANARY.encode() not in file.read_bytes(), file
    for row in routed.used():
        assert CANARY not in str(row)
