"""The model router as agents see it: tokens, models, streams, errors; nothing is kept of what is said."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from hermesops.localcloud.listener import Listener, listen
from hermesops.localcloud.router import Upstream
from hermesops.localcloud.sim.driver import SimDriver
from hermesops.model.ids import InstanceId
from hermesops.model.route import ROUTES, issue_token
from hermesops.waiting import pause
from tests.support.localcloud import LocalCloud, serving

INSTANCE = InstanceId("11111111-2222-4333-8444-555555555555")
MODEL = ROUTES[0].name
TERMINAL = [{"type": "function", "function": {"name": "terminal", "parameters": {}}}]


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncIterator[LocalCloud]:
    async with serving(tmp_path, SimDriver(tmp_path)) as up:
        yield up


def agent(cloud: LocalCloud, token: str | None = None) -> httpx.AsyncClient:
    bearer = issue_token(cloud.model_secret, INSTANCE, 1) if token is None else token
    return httpx.AsyncClient(
        base_url=cloud.where.model_base_url, headers={"Authorization": f"Bearer {bearer}"}, timeout=20
    )


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


async def test_only_genuine_live_tokens_are_good(cloud: LocalCloud) -> None:
    old, new = (issue_token(cloud.model_secret, INSTANCE, generation) for generation in (1, 2))
    forged = issue_token(b"another secret of at least 32 bytes", INSTANCE, 1)
    revoke = await cloud.http.post("/local/model-tokens", json={"instance": INSTANCE, "oldest_generation": 2})
    assert revoke.status_code == 204
    for token, status in (("sk-nonsense", 401), ("hm1.x.y", 401), (forged, 401), (old, 401), (new, 200)):
        async with agent(cloud, token) as http:
            assert (await http.post("/chat/completions", json=ask("x"))).status_code == status
            assert (await http.get("/models")).status_code == status


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
