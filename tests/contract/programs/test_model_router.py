"""The model router as agents see it: tokens, models, streams, errors; nothing is kept of what is said."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from hermesops.base.waiting import Pending, pause, until
from hermesops.errors import UnavailableError
from hermesops.localcloud.drivers.sim.driver import SimDriver
from hermesops.localcloud.model_router.router import Upstream
from hermesops.localcloud.server.listener import Listener, listen
from hermesops.model.billing.model_usage import Account, Usage
from hermesops.model.billing.route import ROUTES, issue_token
from hermesops.model.ids import InstanceId
from hermesops.programs.model_router.accounts.account_cache import EVERY_S, AccountCache
from tests.support.worlds.local.local_server import LocalCloud, serving

pytestmark = pytest.mark.turns(10)

INSTANCE = InstanceId("11111111-2222-4333-8444-555555555555")
MODEL = ROUTES[0].name
TERMINAL = [{"type": "function", "function": {"name": "terminal", "parameters": {}}}]


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncIterator[LocalCloud]:
    async with serving(tmp_path, SimDriver(tmp_path)) as up:
        yield up


def agent(cloud: LocalCloud, token: str | None = None) -> httpx.AsyncClient:
    bearer = issue_token(cloud.model_secret, INSTANCE, 1, in_an_hour()) if token is None else token
    headers = {b"Authorization": f"Bearer {bearer}".encode("latin-1")}
    return httpx.AsyncClient(base_url=cloud.where.model_base_url, headers=headers, timeout=20)


def ask(text: str, **fields: object) -> dict[str, object]:
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], **fields}


async def test_an_agent_gets_an_answer(cloud: LocalCloud) -> None:
    async with agent(cloud) as http:
        answer = await http.post("/chat/completions", json=ask("hello"))
    assert answer.status_code == 200
    assert answer.json()["choices"][0]["message"] == {"role": "assistant", "content": "YOU SAID: hello"}
    assert answer.json()["model"] == MODEL


async def test_an_agent_gets_a_stream_with_a_tool_call(cloud: LocalCloud) -> None:
    async with agent(cloud) as http:
        answer = await http.post("/chat/completions", json=ask("RUN: id", stream=True, tools=TERMINAL))
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [line.removeprefix("data: ") for line in answer.text.splitlines() if line]
    assert events[-1] == "[DONE]"
    call = json.loads(events[1])["choices"][0]["delta"]["tool_calls"][0]
    assert call["function"] == {"name": "terminal", "arguments": '{"command": "id"}'}


async def test_the_platforms_models_are_listed(cloud: LocalCloud) -> None:
    async with agent(cloud) as http:
        listed = (await http.get("/models")).json()["data"]
    assert [model["id"] for model in listed] == [route.name for route in ROUTES]


async def test_an_unknown_model_is_400_in_openais_shape(cloud: LocalCloud) -> None:
    async with agent(cloud) as http:
        answer = await http.post("/chat/completions", json={**ask("x"), "model": "gpt-1"})
    assert answer.status_code == 400
    assert answer.json()["error"].items() >= {"param": "model", "code": "model_not_found"}.items()
    assert "gpt-1" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"model": "x"}', b'{"messages": []}', b'{"model":1,"messages":2}']
)
async def test_a_broken_request_is_400(cloud: LocalCloud, body: bytes) -> None:
    async with agent(cloud) as http:
        answer = await http.post("/chat/completions", content=body)
    assert answer.status_code == 400
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


async def statuses(cloud: LocalCloud, token: str) -> set[int]:
    """What the router answers to a bearer of a token, whatever is asked."""
    async with agent(cloud, token) as http:
        return {
            (await http.post("/chat/completions", json=ask("x"))).status_code,
            (await http.get("/models")).status_code,
        }


@pytest.mark.parametrize(
    "token", ["sk-nonsense", "hm1.x.y", "hm2.x.1.1." + "0" * 40, "\xb2" * 60, "hm2." + "9" * 60_000]
)
async def test_what_no_issuer_signed_opens_nothing(cloud: LocalCloud, token: str) -> None:
    assert await statuses(cloud, token) == {401}


async def test_a_token_of_another_key_or_one_that_ran_out_opens_nothing(cloud: LocalCloud) -> None:
    forged = issue_token(b"another secret of at least 32 bytes", INSTANCE, 1, in_an_hour())
    assert await statuses(cloud, forged) == {401}
    assert await statuses(cloud, issue_token(cloud.model_secret, INSTANCE, 1, int(time.time()))) == {401}
    soon = issue_token(cloud.model_secret, INSTANCE, 1, int(time.time()) + 2)
    assert await statuses(cloud, soon) == {200}
    await pause(2)
    assert await statuses(cloud, soon) == {401}


def floor_of(account: Account | None) -> int | None:
    return account.floor if account else None


class Table:
    """Floors as a registry has them."""

    def __init__(self) -> None:
        self.floors = {INSTANCE: 1}
        self.is_away = False
        self.used: list[InstanceId] = []

    def read(self) -> dict[InstanceId, Account]:
        if self.is_away:
            raise UnavailableError("the registry does not answer")
        return {instance: Account(floor) for instance, floor in self.floors.items()}

    def write(self, batch: str, rows: Sequence[Usage]) -> None:  # noqa: ARG002 - of the port
        if self.is_away:
            raise UnavailableError("the registry does not answer")
        self.used.extend(row.instance_id for row in rows)


async def test_the_platforms_router_is_answered_as_by_a_provider_and_nobodys_usage_is_written_down(
    tmp_path: Path,
) -> None:
    table = Table()
    async with serving(tmp_path, SimDriver(tmp_path), ledger=table) as cloud:
        key = (tmp_path / "provider.key").read_text().strip()
        assert await statuses(cloud, key) == {200}
        assert await statuses(cloud, key[:-1]) == {401}
        await until_it_answers(cloud, issue_token(cloud.model_secret, INSTANCE, 1, in_an_hour()), 200)

        async def written() -> bool | Pending[bool]:
            return bool(table.used) or Pending("nothing was written down")

        await until(written, what="the usage", timeout_s=30, every_s=0.1)
    assert set(table.used) == {INSTANCE}


async def test_a_revoked_token_is_dead_within_ten_seconds(tmp_path: Path) -> None:
    table = Table()
    async with serving(tmp_path, SimDriver(tmp_path), ledger=table) as cloud:
        old, new = (issue_token(cloud.model_secret, INSTANCE, generation, in_an_hour()) for generation in (1, 2))
        unknown = issue_token(cloud.model_secret, InstanceId(str(uuid4())), 1, in_an_hour())
        await until_it_answers(cloud, old, 200)
        assert await statuses(cloud, unknown) == {401}
        table.floors[INSTANCE] = 2
        await until_it_answers(cloud, old, 401)
        assert await statuses(cloud, new) == {200}
        # Back from an older copy, the registry knows of no revocation; this router does.
        table.floors[INSTANCE] = 1
        await pause(EVERY_S + 0.5)
        assert await statuses(cloud, old) == {401}


async def test_a_router_that_was_down_refuses_what_was_revoked_meanwhile_from_its_first_answer(tmp_path: Path) -> None:
    table = Table()
    async with serving(tmp_path, SimDriver(tmp_path), ledger=table) as cloud:
        token = issue_token(cloud.model_secret, INSTANCE, 1, in_an_hour())
        await until_it_answers(cloud, token, 200)
    table.floors[INSTANCE] = 2
    async with serving(tmp_path, SimDriver(tmp_path), ledger=table) as cloud:
        # 503 until the floors are read, never 200.
        assert await statuses(cloud, token) <= {401, 503}
        await until_it_answers(cloud, token, 401)


async def test_a_router_that_cannot_read_floors_at_its_start_opens_to_nobody(tmp_path: Path) -> None:
    table = Table()
    table.is_away = True
    async with serving(tmp_path, SimDriver(tmp_path), ledger=table) as cloud:
        token = issue_token(cloud.model_secret, INSTANCE, 1, in_an_hour())
        for _ in range(3):
            assert await statuses(cloud, token) == {503}
            await pause(0.5)
        table.is_away = False
        await until_it_answers(cloud, token, 200)


async def test_floors_count_for_a_while_without_the_registry_and_then_nobody_is_let_in() -> None:
    table, now = Table(), [0.0]
    floors = AccountCache(table.read, stale_after_s=300, clock=lambda: now[0])
    assert not floors.are_known
    await floors.read()
    assert (floors.are_known, floor_of(floors.of(INSTANCE))) == (True, 1)
    table.is_away = True
    now[0] = 300.0
    await floors.read()
    assert (floors.are_known, floor_of(floors.of(INSTANCE))) == (True, 1)
    now[0] = 300.1
    assert not floors.are_known


async def test_an_instance_that_is_newer_than_the_last_reading_is_looked_up() -> None:
    table, now = Table(), [0.0]
    floors = AccountCache(table.read, clock=lambda: now[0])
    await floors.read()
    newer = InstanceId("newer")
    table.floors[newer] = 3
    assert floors.of(newer) is None
    assert await floors.of_newest(newer) is None, "read a moment ago"
    now[0] = 0.1
    assert floor_of(await floors.of_newest(newer)) == 3


async def until_it_answers(cloud: LocalCloud, token: str, status: int) -> None:
    async def check() -> bool | Pending[bool]:
        answers = await statuses(cloud, token)
        return True if answers == {status} else Pending(str(answers))

    await until(check, what=f"{status} from the router", timeout_s=10, every_s=0.2)


def in_an_hour() -> int:
    return int(time.time()) + 3600


async def test_the_log_knows_who_and_which_but_not_a_word(cloud: LocalCloud) -> None:
    async with agent(cloud) as http:
        await http.post("/chat/completions", json=ask("the canary sings"))
        await http.post("/chat/completions", json={**ask("x"), "model": "gpt-1"})
    requests = (await cloud.http.get("/local/model-requests", params={"instance": INSTANCE})).json()["requests"]
    assert [(entry["model"], entry["status"]) for entry in requests] == [(MODEL, 200), ("gpt-1", 400)]
    assert (await cloud.http.get("/local/model-requests", params={"instance": "other"})).json() == {"requests": []}
    for file in cloud.folder.iterdir():
        assert b"canary" not in file.read_bytes(), file


async def test_a_slow_answer_holds_up_nobody_else(cloud: LocalCloud) -> None:
    async with agent(cloud) as http:
        slow = asyncio.create_task(http.post("/chat/completions", json=ask("SLEEP 1")))
        await http.post("/chat/completions", json=ask("quick"))
        assert not slow.done()
        assert (await slow).json()["choices"][0]["message"]["content"] == "SLEPT"


class RealModel:
    """A stand-in of a model provider that streams slowly and remembers who asked."""

    def __init__(self) -> None:
        self.keys: list[str] = []
        self.bodies: list[dict[str, object]] = []

    def app(self) -> Starlette:
        return Starlette(routes=[Route("/v1/chat/completions", self.complete, methods=["POST"])])

    async def complete(self, request: Request) -> Response:
        self.keys.append(request.headers["authorization"])
        self.bodies.append(await request.json())
        if self.bodies[-1].get("fail"):
            return JSONResponse({"error": {"message": "slow down"}}, 429, {"retry-after": "7"})
        return StreamingResponse(self.pieces(), media_type="text/event-stream")

    async def pieces(self) -> AsyncIterator[str]:
        for number in range(3):
            yield f"data: {number}\n\n"
            await pause(0.3)


async def test_a_real_model_answers_with_its_own_key_and_streams(tmp_path: Path) -> None:
    model, socket = RealModel(), listen("127.0.0.1", 0)
    listener = Listener(model.app(), socket)
    running = asyncio.create_task(listener.run_until_stopped())
    upstream = Upstream(f"http://127.0.0.1:{socket.getsockname()[1]}/v1", "the-real-key")
    async with serving(tmp_path, SimDriver(tmp_path), upstream=upstream) as cloud:
        async with agent(cloud) as http:
            loop = asyncio.get_running_loop()
            async with http.stream("POST", "/chat/completions", json=ask("hi", stream=True)) as stream:
                times = [loop.time() async for line in stream.aiter_lines() if line]
            assert len(times) == 3
            assert times[2] - times[0] > 0.4
            refused = await http.post("/chat/completions", json=ask("hi", fail=True))
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "7")
            listener.stop()
            await running
            socket.close()
            gone = await http.post("/chat/completions", json=ask("hi"))
            assert (gone.status_code, gone.json()["error"]["code"]) == (502, "upstream_unavailable")
        assert model.keys == ["Bearer the-real-key"] * 2
        assert model.bodies[0] == ask("hi", stream=True)
        logged = (await cloud.http.get("/local/model-requests")).json()["requests"]
        assert [entry["status"] for entry in logged] == [200, 429, 502]
    assert "the-real-key" not in repr(upstream)
