"""Agents' calls to their services: only their own accounts, and the project's key on no machine."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from hermesops.base.network.http import own_client
from hermesops.base.waiting import pause
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.store.user_rows.accounts import UserAccounts
from hermesops.store.user_rows.connections import UserConnections
from hermesops.store.user_rows.mcp_access import McpAccesses
from hermesops.users.connections import agent_calls, mcp_proxy
from tests.support.real.relay import HOST
from tests.support.suite.cases import each_case
from tests.support.users.api import UsersApi, served
from tests.support.users.mailbox import linked

FAILED = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32000, "message": "the service is not available; try again"}}
INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {"sampling": {}}, "clientInfo": {"name": "x"}}


@dataclass
class Agent:
    """An agent's client of the protocol."""

    http: httpx.AsyncClient
    id: str
    token: str
    session: str = ""
    seen: list[httpx.Response] = field(default_factory=list)

    async def send(self, method: str, params: object = None, **options: Any) -> httpx.Response:  # noqa: ANN401 - httpx's
        message: dict[str, object] = {"jsonrpc": "2.0", "id": 1, "method": method}
        if params is not None:
            message["params"] = params
        headers = {
            "authorization": f"Bearer {self.token}",
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2025-06-18",
            **({"mcp-session-id": self.session} if self.session else {}),
            **options.pop("headers", {}),
        }
        path = options.pop("path", f"/mcp/{self.id}")
        answer = await self.http.post(path, headers=headers, **{"json": message, **options})
        self.seen.append(answer)
        return answer

    async def begin(self) -> None:
        self.session = ""
        answer = await self.send("initialize", INITIALIZE)
        assert answer.status_code == 200, answer.text
        self.session = answer.headers["mcp-session-id"]
        assert (await self.send("notifications/initialized")).status_code == 202

    async def tools(self) -> list[str]:
        answer = await self.send("tools/list")
        return [tool["name"] for tool in answer.json()["result"]["tools"]]

    async def call(self, name: str, **arguments: object) -> str:
        answer = await self.send("tools/call", {"name": name, "arguments": arguments})
        assert answer.headers["content-type"] == "text/event-stream", answer.text
        data = next(line for line in answer.text.splitlines() if line.startswith("data: "))
        text: str = json.loads(data.removeprefix("data: "))["result"]["content"][0]["text"]
        return text


@pytest.fixture
async def agent(api: UsersApi) -> AsyncIterator[Agent]:
    """Ada's, with her mailbox."""
    await linked(api, api.ada, "gmail")
    async with own_client(base_url=api.process.url, timeout=30) as http:
        agent = Agent(http, api.ada.id, McpAccesses(api.all_rows).grant(api.ada.id))
        yield agent
        for answer in agent.seen:
            assert api.composio.key not in f"{answer.text}{answer.headers}"


async def test_an_agent_uses_its_users_account(api: UsersApi, agent: Agent) -> None:
    await agent.begin()
    assert await agent.tools() == ["GMAIL_WHO_AM_I"]
    [account] = api.composio.accounts
    assert await agent.call("GMAIL_WHO_AM_I") == f"GMAIL_WHO_AM_I as {api.ada.id} with {account}"
    assert len(api.composio.sessions) == 1


async def test_nothing_in_a_request_chooses_another_user(api: UsersApi, agent: Agent) -> None:
    grace = api.relay.agent("grace", "http://127.0.0.1:9")
    hers = await linked(api, grace, "gmail")
    grace_token = McpAccesses(api.all_rows).grant(grace.id)
    await agent.begin()
    params = {
        "name": "GMAIL_WHO_AM_I",
        "arguments": {},
        "user_id": grace.id,
        "connected_account_id": hers,
        "_meta": {"user_id": grace.id},
    }
    tries: list[dict[str, Any]] = [
        {"headers": {"x-user-id": grace.id, "x-composio-user-id": grace.id, "x-api-key": "ak", "x-org-api-key": "ok"}},
        {"path": f"/mcp/{agent.id}?user_id={grace.id}&connected_account_id={hers}"},
    ]
    for options in tries:
        answer = await agent.send("tools/call", params, **options)
        assert agent.id in answer.text
        assert grace.id not in answer.text
        assert hers not in answer.text
    [server] = api.composio.sessions.values()
    assert all(call == {"name": "GMAIL_WHO_AM_I", "arguments": {}} for call in server.calls)
    for path in (f"/mcp/{grace.id}", f"/mcp/{uuid4()}"):
        assert (await agent.send("tools/list", path=path)).status_code == 401
    theirs = Agent(agent.http, grace.id, grace_token)
    await theirs.begin()
    answer = await agent.send("tools/list", headers={"mcp-session-id": theirs.session})
    assert answer.status_code == 404


@each_case("token", ["", "x", "x" * 43, "x" * 5000, "\x00", "é"], ids=lambda token: repr(token[:5]))
async def test_another_token_is_refused(api: UsersApi, agent: Agent, token: str) -> None:
    assert api
    headers = {"authorization": f"Bearer {token}".encode("latin-1")}
    try:
        answer = await agent.send("initialize", INITIALIZE, headers=headers)
    except httpx.HTTPError:
        return
    assert answer.status_code in {400, 401}
    assert not api.composio.sessions


async def test_a_users_token_is_no_agents_and_the_other_way_round(api: UsersApi, agent: Agent) -> None:
    headers = {"authorization": f"Bearer {api.token()}"}
    assert (await agent.send("initialize", INITIALIZE, headers=headers)).status_code == 401
    answer = await agent.http.get("/api/hermes/connections", headers={"authorization": f"Bearer {agent.token}"})
    assert answer.status_code == 401


@each_case("status", [InstanceStatus.SUSPENDED, InstanceStatus.PROVISIONING], ids=str)
async def test_an_agent_that_does_not_run_has_no_way(api: UsersApi, agent: Agent, status: InstanceStatus) -> None:
    await agent.begin()
    api.relay.registry.instances.set_status(api.ada.id, status)
    assert (await agent.send("tools/list")).status_code == 401
    api.relay.registry.instances.set_status(api.ada.id, InstanceStatus.RUNNING)


async def test_a_token_in_the_place_of_another_ends_that_one(api: UsersApi, agent: Agent) -> None:
    fresh = McpAccesses(api.all_rows).grant(api.ada.id)
    assert (await agent.send("initialize", INITIALIZE)).status_code == 401
    agent.token = fresh
    await agent.begin()
    McpAccesses(api.all_rows).end(api.ada.id)
    assert (await agent.send("tools/list")).status_code == 401


async def test_a_disconnected_service_is_out_of_reach_at_once(api: UsersApi, agent: Agent) -> None:
    await linked(api, api.ada, "slack")
    await agent.begin()
    assert await agent.tools() == ["GMAIL_WHO_AM_I", "SLACK_WHO_AM_I"]
    UserConnections(api.all_rows).disconnect(api.ada.user_id, "gmail")
    before = api.composio.requests["POST"]
    answer = await agent.send("tools/call", {"name": "GMAIL_WHO_AM_I", "arguments": {}})
    assert (answer.status_code, answer.json()["code"]) == (404, "session-ended")
    assert api.composio.requests["POST"] == before + 1, "a new session is opened, and the call does not reach it"
    await agent.begin()
    assert await agent.tools() == ["SLACK_WHO_AM_I"]
    assert len(api.composio.sessions) == 1
    UserConnections(api.all_rows).disconnect(api.ada.user_id, "slack")
    answer = await agent.send("tools/list")
    assert (answer.status_code, answer.json()["code"]) == (409, "nothing-connected")


async def test_ending_a_connection_ends_the_session_that_could_use_it(api: UsersApi, agent: Agent) -> None:
    await agent.begin()
    [row] = UserConnections(api.all_rows).disconnect(api.ada.user_id, "gmail")
    await api.upkeep.settle(row)
    assert not api.composio.sessions
    assert not api.composio.accounts


async def test_a_session_that_the_vendor_forgot_is_opened_anew(api: UsersApi, agent: Agent) -> None:
    await agent.begin()
    api.composio.sessions.clear()
    assert (await agent.send("tools/list")).status_code == 404
    await agent.begin()
    assert await agent.tools() == ["GMAIL_WHO_AM_I"]


async def test_agents_that_begin_at_once_open_one_session(api: UsersApi, agent: Agent) -> None:
    others = [Agent(agent.http, agent.id, agent.token) for _ in range(4)]
    await asyncio.gather(*(other.begin() for other in others))
    assert len(api.composio.sessions) == 1


@each_case("method", ["GET", "DELETE", "PUT", "OPTIONS"])
async def test_an_agent_that_asks_otherwise_is_told_so(api: UsersApi, agent: Agent, method: str) -> None:
    assert api
    headers = {"authorization": f"Bearer {agent.token}"}
    assert (await agent.http.request(method, f"/mcp/{agent.id}", headers=headers)).status_code == 405


@each_case("tool", ["COMPOSIO_MANAGE_CONNECTIONS", "COMPOSIO_REMOTE_WORKBENCH"])
async def test_a_tool_that_would_reach_further_is_refused(api: UsersApi, agent: Agent, tool: str) -> None:
    await agent.begin()
    answer = await agent.send("tools/call", {"name": tool, "arguments": {}})
    assert answer.status_code == 200
    assert answer.json()["error"]["message"] == "agents may not use this tool"
    answer = await agent.send("tools/call", json={"jsonrpc": "2.0", "method": "tools/call", "params": {"name": tool}})
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed")
    assert await agent.tools() == ["GMAIL_WHO_AM_I"]
    assert not any(server.calls for server in api.composio.sessions.values())


async def test_bodies_are_bounded(api: UsersApi, agent: Agent) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(40):
            yield b"x" * 65_536

    for content in (b"x" * (2 << 20), pieces()):
        answer = await agent.send("ping", json=None, content=content)
        assert (answer.status_code, answer.json()["code"]) == (413, "too-large")
    assert not api.composio.sessions


@asynccontextmanager
async def vendor_answers(
    api: UsersApi, agent: Agent, answer: Callable[[Request], Awaitable[Response]]
) -> AsyncIterator[None]:
    """Have a hostile server answer in the place of ada's session."""
    await agent.begin()
    accesses = McpAccesses(api.all_rows)
    access = accesses.of_instance(api.ada.id)
    assert access
    listener = socket.create_server((HOST, 0))
    url = f"http://{HOST}:{listener.getsockname()[1]}/mcp"
    async with served(Starlette(routes=[Route("/mcp", answer, methods=["POST"])]), listener):
        assert accesses.keep_session(access, access.session, url, access.accounts_digest)
        yield
        assert accesses.keep_session(access, access.session, access.url, access.accounts_digest)


EVENTS = {"content-type": "text/event-stream"}


async def endless() -> AsyncIterator[bytes]:
    while True:
        yield b": more\n" * 10_000
        await pause(0)


async def silent() -> AsyncIterator[bytes]:
    yield b"{"
    await pause(30)


@each_case(
    "status, headers, body",
    [
        (302, {"location": "https://evil.test/"}, b""),
        (307, {"location": "http://127.0.0.1:1/"}, b""),
        (200, {"content-type": "text/html"}, b"<script>"),
        (200, {}, b"{}"),
        (401, {"content-type": "application/json"}, b'{"error": "Invalid API key KEY"}'),
        (403, {}, b"KEY"),
        (429, {"retry-after": "9999999"}, b"KEY"),
        (500, {"content-type": "application/json"}, b'{"key": "KEY"}'),
        (204, {}, b""),
    ],
    ids=str,
)
async def test_a_vendors_other_answers_are_no_answers_to_an_agent(
    api: UsersApi, agent: Agent, status: int, headers: Mapping[str, str], body: bytes
) -> None:
    async def answer(_request: Request) -> Response:
        return Response(body.replace(b"KEY", api.composio.key.encode()), status, dict(headers))

    async with vendor_answers(api, agent, answer):
        got = await agent.send("tools/list")
        begun = await agent.send("initialize", INITIALIZE)
    assert got.json() == FAILED
    assert (begun.status_code, begun.json()["code"]) == (503, "unavailable")
    assert "location" not in got.headers


async def test_the_key_is_in_no_answer_also_where_the_vendor_repeats_it(api: UsersApi, agent: Agent) -> None:
    key = api.composio.key.encode()

    async def pieces() -> AsyncIterator[bytes]:
        for piece in (b"data: " + key[:5], key[5:9], key[9:] + key[:3], b"x " + key + b"\n", key[:-1], b"!\n"):
            yield piece
            await pause(0.01)

    async def answer(request: Request) -> Response:
        assert request.headers["x-api-key"] == api.composio.key
        assert "authorization" not in request.headers
        headers = {**EVENTS, "mcp-session-id": f"s{api.composio.key}", "x-debug": api.composio.key, "set-cookie": "a=b"}
        return StreamingResponse(pieces(), headers=headers)

    async with vendor_answers(api, agent, answer):
        got = await agent.send("tools/list")
    stars = b"*" * len(key)
    assert got.content == b"data: " + stars + key[:3] + b"x " + stars + b"\n" + key[:-1] + b"!\n"
    assert not {"mcp-session-id", "x-debug", "set-cookie"} & got.headers.keys()


@each_case("kind", ["endless", "silent", "no head"])
async def test_an_answer_without_an_end_is_cut(
    api: UsersApi, agent: Agent, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = api.process.parts.agent_calls
    assert calls
    await agent.begin()

    async def answer(_request: Request) -> Response:
        if kind == "no head":
            await pause(30)
        return StreamingResponse(endless() if kind == "endless" else silent(), headers=EVENTS)

    async with vendor_answers(api, agent, answer), asyncio.timeout(20):
        monkeypatch.setattr(calls.proxy, "_call_s", 0.5)  # not before: the agent's first call may take as long
        try:
            got = await agent.send("tools/list")
            assert kind == "no head"
            assert got.json() == FAILED
        except httpx.HTTPError:
            assert kind != "no head"
        assert calls.places.taken == 0
    if kind == "endless":
        assert mcp_proxy.LARGEST_ANSWER <= 8 << 20


async def test_an_agent_has_its_own_places(api: UsersApi, agent: Agent) -> None:
    held = asyncio.Event()
    waiting = asyncio.Semaphore(0)

    async def answer(_request: Request) -> Response:
        waiting.release()
        await held.wait()
        return Response(b"{}", media_type="application/json")

    async with vendor_answers(api, agent, answer):
        most = agent_calls.MOST.per_agent
        calls = [asyncio.ensure_future(agent.send("tools/list")) for _ in range(most)]
        for _ in range(most):
            await waiting.acquire()
        refused = await agent.send("tools/list")
        assert refused.json() == FAILED
        held.set()
        assert {(await call).status_code for call in calls} == {200}
        assert (await agent.send("tools/list")).status_code == 200


async def test_a_redirect_is_not_followed_when_a_session_is_opened(api: UsersApi, agent: Agent) -> None:
    async def answer(_request: Request) -> Response:
        return RedirectResponse("https://evil.test/")

    async with vendor_answers(api, agent, answer):
        assert (await agent.send("initialize", INITIALIZE)).status_code == 503


async def test_accounts_of_a_terminated_agent_are_of_no_use(api: UsersApi, agent: Agent) -> None:
    await agent.begin()
    api.relay.registry.terminations.terminate(api.ada.id)
    assert UserAccounts(api.database).of_user(api.ada.user_id) is None
    assert (await agent.send("tools/list")).status_code == 401
