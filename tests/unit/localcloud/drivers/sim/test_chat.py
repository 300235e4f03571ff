"""Runs of simulated agents: streamed, approved, stopped, forgotten by a restart; their sessions are not."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from hermesops.localcloud.drivers.sim.agent.chat import Chats
from hermesops.localcloud.drivers.sim.agent.gateway import ModelAccess
from hermesops.localcloud.model_router.scripted_model import answer_to, stream

M = "machine-1"


def answer(request: httpx.Request) -> httpx.Response:
    body = json.loads(request.content)
    tools = frozenset(tool["function"]["name"] for tool in body["tools"])
    assert request.headers["authorization"] == "Bearer token-1"
    return httpx.Response(200, text="".join(stream("c1", 0, "m", answer_to(body["messages"], tools).content, 1)))


@pytest.fixture
def gateway() -> Any:  # noqa: ANN401 - the part of a gateway that is needed
    state = SimpleNamespace(boot=1, starts=1)
    return SimpleNamespace(state=state, is_draining=False, model=ModelAccess("http://router/v1", "token-1", "m"))


@pytest.fixture
async def chats() -> Any:  # noqa: ANN401 - a generator
    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
        chats = Chats(http)
        yield chats
        await chats.close()


def begun(chats: Chats, gateway: Any, question: object) -> str:  # noqa: ANN401 - as above
    reply = chats.answer(M, gateway, "POST", "/v1/runs", {"input": question, "session_id": "web_main"})
    assert reply is not None
    assert reply[0] == 202
    return str(reply[1]["run_id"])


async def events_of(chats: Chats, gateway: Any, run: str) -> list[dict[str, Any]]:  # noqa: ANN401 - as above
    events = chats.events(M, gateway, "GET", f"/v1/runs/{run}/events")
    assert events is not None
    lines = [line.decode() async for line in events]
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data")]


def status(chats: Chats, gateway: Any, run: str) -> dict[str, Any]:  # noqa: ANN401 - as above
    reply = chats.answer(M, gateway, "GET", f"/v1/runs/{run}", {})
    assert reply is not None
    return reply[1]


async def test_a_run_streams_its_answer_once_and_its_session_has_it(chats: Chats, gateway: Any) -> None:  # noqa: ANN401
    run = begun(
        chats, gateway, [{"role": "user", "content": [{"type": "text", "text": "hello"}, {"type": "image_url"}]}]
    )
    events = await events_of(chats, gateway, run)
    assert [event["event"] for event in events] == ["message.delta", "run.completed"]
    assert status(chats, gateway, run)["output"] == "YOU SAID: hello\n"
    assert chats.events(M, gateway, "GET", f"/v1/runs/{run}/events") is None
    reply = chats.answer(M, gateway, "GET", "/api/sessions/web_main/messages", {})
    assert reply is not None
    assert [(row["role"], row["content"]) for row in reply[1]["data"]] == [
        ("user", "hello"),
        ("assistant", "YOU SAID: hello\n"),
    ]
    assert chats.active(M, gateway) == 0
    assert chats.answer("machine-2", gateway, "GET", f"/v1/runs/{run}", {}) is None


async def test_a_dangerous_command_waits_for_its_approval(chats: Chats, gateway: Any) -> None:  # noqa: ANN401
    for choice, output in (("once", "(simulated) rm x"), ("deny", "BLOCKED: rm x")):
        run = begun(chats, gateway, "RUN: rm x")
        reading = asyncio.ensure_future(events_of(chats, gateway, run))
        async with asyncio.timeout(10):
            while status(chats, gateway, run)["status"] != "waiting_for_approval":
                await asyncio.wait({reading}, timeout=0.01)
        assert chats.active(M, gateway) == 1
        approved = chats.answer(M, gateway, "POST", f"/v1/runs/{run}/approval", {"choice": choice})
        again = chats.answer(M, gateway, "POST", f"/v1/runs/{run}/approval", {"choice": choice})
        assert approved is not None
        assert again is not None
        assert (approved[0], again[0]) == (200, 409)
        kinds = [event["event"] for event in await reading]
        assert kinds[:4] == ["tool.started", "approval.request", "approval.responded", "tool.completed"]
        assert status(chats, gateway, run)["output"] == f"TOOL SAID: {output}"


async def test_a_stopped_run_is_cancelled(chats: Chats, gateway: Any) -> None:  # noqa: ANN401
    run = begun(chats, gateway, "RUN: rm x")
    reading = asyncio.ensure_future(events_of(chats, gateway, run))
    async with asyncio.timeout(10):
        while status(chats, gateway, run)["status"] != "waiting_for_approval":
            await asyncio.wait({reading}, timeout=0.01)
    chats.answer(M, gateway, "POST", f"/v1/runs/{run}/stop", {})
    assert (await reading)[-1]["event"] == "run.cancelled"
    assert status(chats, gateway, run)["status"] == "cancelled"


async def test_a_restart_forgets_runs_and_keeps_sessions(chats: Chats, gateway: Any) -> None:  # noqa: ANN401
    run = begun(chats, gateway, "RUN: rm x")
    gateway.state.starts = 2
    assert chats.answer(M, gateway, "GET", f"/v1/runs/{run}", {}) is None
    listed = chats.answer(M, gateway, "GET", "/api/sessions", {})
    assert listed is not None
    assert [row["id"] for row in listed[1]["data"]] == ["web_main"]
    gateway.is_draining = True
    refused = chats.answer(M, gateway, "POST", "/v1/runs", {"input": "x", "session_id": "web_main"})
    assert refused is not None
    assert refused[0] == 503
