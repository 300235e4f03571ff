"""Both processes that the internet reaches, and the door before them, log nothing of what users say, name and hold.

They run as on a platform's host: ``hermesops api serve`` and ``api connections`` as processes of their own behind a
real nginx with the role's file. ``test_canaries`` looks at rows, figures and Redis.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import httpx
import pytest
from websockets.asyncio.client import connect

from hermesops.access.secrets.catalog import MESSAGES_KEY
from hermesops.api.routes.connections import CALLBACK as CONNECTED
from hermesops.api.routes.sign_in import CALLBACK
from hermesops.base.waiting import Pending, until
from hermesops.store.user_rows.mcp_access import McpAccesses
from tests.support.real import edge
from tests.support.real.monitoring.platform_host import programs
from tests.support.real.stores.registries import TurnedClock
from tests.support.suite.prerequisites import require
from tests.support.users.api import STRIPE, Client, UsersApi, served, users_api
from tests.support.users.browser import Browser
from tests.support.users.processes import NAME, of_api, of_connections, running

pytestmark = pytest.mark.turns(25)

USER = f"canary-user-{uuid4().hex[:12]}"
OF_BOTH = {"hermes_platform_edge_has_connections": True}
LOGS = ("nginx", "api", "connections")


@dataclass
class Host:
    """The door and both processes, as a user and an agent find them.

    Attributes:
        folder: With a log of each.
        planted: What must be in no log, by what it is.
    """

    api: UsersApi
    door: edge.Edge
    folder: Path
    browser: Browser
    planted: dict[str, str] = field(default_factory=dict)

    def plant(self, name: str) -> str:
        """A text that is found nowhere else."""
        return self.planted.setdefault(name, f"canary-{name}-{uuid4().hex[:12]}")

    @property
    def user(self) -> Client:
        """The user's page."""
        browser = self.browser
        cookie = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
        own = {"origin": browser.origin, "x-hermes-request": "1", "sec-fetch-site": "same-origin", "cookie": cookie}
        return Client(browser.http, {**own, "referer": f"{browser.origin}/hermes-max/chat?{self.plant('referer')}"})

    def logs(self) -> dict[str, str]:
        return {name: (self.folder / f"{name}.log").read_text() for name in LOGS}


@pytest.fixture
async def api(tmp_path: Path, registry_url: str, clock: TurnedClock) -> AsyncIterator[UsersApi]:
    clock.timestamp = datetime.now(UTC)
    async with users_api(tmp_path, registry_url, clock) as api:
        yield api


@contextlib.asynccontextmanager
async def opened(api: UsersApi, folder: Path, behind: contextlib.AsyncExitStack) -> AsyncIterator[Host]:
    """The host; its processes end with ``behind``, which may be before the door."""
    root = programs()
    require(root, "Debian's programs")
    assert root
    folder.mkdir()  # noqa: ASYNC240 - before anything runs
    with edge.running(folder, root, [folder / "api.sock"], OF_BOTH) as door:
        api.issuer._pages = door.url
        own = of_api(folder / "of-api", api, door.url)
        ring = (folder / "of-api" / NAME / "keys" / MESSAGES_KEY.name).read_text()
        connections = of_connections(folder / "of-connections", api, door.url, f"{door.url}/mcp", ring)
        for env, words, name in ((own, "serve", "api"), (connections, "connections", "connections")):
            process = running(env, ["api", words], folder / f"{name}.sock", folder / f"{name}.log")
            await behind.enter_async_context(process)
        async with httpx.AsyncClient(base_url=door.url, verify=door.context(), timeout=60, trust_env=False) as http:
            yield Host(api, door, folder, Browser(http, door.url))


async def signs_in(host: Host) -> None:
    """As a user does; the code and the state of the way back, and the session, must be in no log."""
    back = await host.browser.authorize(USER)
    host.planted |= {f"sign-in {name}": values[0] for name, values in parse_qs(urlsplit(back).query).items()}
    assert {"sign-in code", "sign-in state"} <= host.planted.keys()
    assert (await host.browser.ask("GET", back)).status_code == 303
    assert (await host.browser.ask("GET", back)).status_code != 303, "a second time it is refused"
    host.planted |= {f"cookie {name}": value for name, value in host.browser.cookies.items()}


async def chats(host: Host) -> None:
    """By both ways, with a file, and with an agent that fails with what it was told."""
    files = {"file": (f"{host.plant('file')}.txt", host.plant("content").encode())}
    assert (await host.user.ask("POST", "/chat/files", files=files)).status_code == 201
    refused = {"file": (f"{host.plant('refused')}.pdf", b"%PDF\xff" + host.plant("refused").encode())}
    assert (await host.user.ask("POST", "/chat/files", files=refused)).status_code == 422
    events = await host.user.whole(f"do {host.plant('prompt')}", conversation=host.plant("conversation"))
    assert events[-1].kind == "done"
    host.api.agent.titles[f"web_{host.plant('conversation')}"] = host.plant("title")
    assert host.plant("title") in (await host.user.ask("GET", "/chat/conversations")).text
    malformed = {"message": [host.plant("malformed")], host.plant("key"): 1}
    assert (await host.user.ask("POST", "/chat", json=malformed)).status_code == 422
    assert (await host.user.ask("POST", "/chat", content=f'{{"{host.plant("cut")}')).status_code == 422
    assert (await host.user.ask("GET", f"/chat/conversations/{host.plant('path')}?x={host.plant('query')}")).is_success
    address = urlsplit(host.door.url)
    headers = {"cookie": host.user.headers["cookie"], "origin": host.browser.origin}
    url = f"wss://{address.netloc}/api/hermes/chat/socket?{host.plant('socket')}="
    async with connect(url, ssl=host.door.context(), additional_headers=headers) as connection:
        frame = {"message": host.plant("frame"), "conversation": host.plant("conversation"), "client_key": "k9"}
        for sent in ({"type": "send", "ref": "1", **frame, "files": []}, {"type": host.plant("frame type")}):
            await connection.send(json.dumps(sent))
            assert json.loads(await connection.recv())["event"] in {"turn", "problem"}


async def is_disappointed_by_the_agent(host: Host) -> None:
    """The agent's own words are as hostile as they come, and whatever is refused has its reason logged."""
    agent = host.api.agent
    agent.says = False
    async with asyncio.timeout(60), host.user.send(host.plant("failing"), conversation="failing") as events:
        assert (await anext(events)).kind == "turn"

        async def runs() -> bool | Pending[bool]:
            return host.plant("failing") in agent.run.text or Pending("not yet")

        await until(runs, what="the run", timeout_s=30, every_s=0.05)
        agent.push(agent.run, host.plant("kind"), delta=host.plant("delta"))
        agent.push(agent.run, "message.delta", delta=[host.plant("no text")])
        agent.push(agent.run, "tool.started", tool=host.plant("tool"), preview=host.plant("preview"))
        agent.push(agent.run, "run.failed", error=host.plant("failure"))
        agent.run.status = "failed"
        agent.run.events.put_nowait(None)
        assert [event.kind async for event in events][-1] == "failed"
    agent.say("web_odd", "assistant", {"odd": host.plant("odd")})
    await host.user.ask("GET", "/chat/conversations/odd")
    agent.says, agent.is_away = True, True
    async with asyncio.timeout(60), host.user.send(host.plant("refused prompt"), conversation="away") as events:
        assert (await anext(events)).kind == "turn"
    agent.is_away = False
    job = {"cron": "never", "prompt": host.plant("job"), "enabled": True}
    assert not (await host.user.ask("POST", "/cron", json=job)).is_success


async def is_refused(host: Host) -> None:
    """Forged tokens, sessions, events and addresses."""
    http = host.browser.http
    for headers in (
        {"authorization": f"Bearer {host.plant('bearer')}"},
        {"cookie": f"__Host-hermes={host.plant('x')}"},
    ):
        assert (await http.get("/api/hermes/me", headers=headers)).status_code == 401
    token = host.api.token(exp=1)
    host.planted["ended token"] = token
    assert (await http.get("/api/hermes/me", headers={"authorization": f"Bearer {token}"})).status_code == 401
    signed = {"stripe-signature": host.plant("signature")}
    event = await http.post("/webhooks/stripe/hermes", content=host.plant("event"), headers=signed)
    assert event.status_code == 401
    back = f"{CALLBACK}?code={host.plant('code')}&state={host.plant('state')}&error={host.plant('error')}"
    for path in (back, f"/{host.plant('nowhere')}", f"{CONNECTED}/{host.plant('way back')}"):
        assert not (await http.get(path)).is_success
    assert (await http.get("/api/hermes/me", headers={"host": f"{host.plant('host')}.test"})).status_code == 421
    assert (await http.post("/api/hermes/chat", content=b"x" * ((1 << 20) + 1))).status_code == 413


async def uses_a_service(host: Host) -> None:
    """A user connects a mailbox and an agent uses it."""
    browser, api = host.browser, host.api
    response = await browser.change("POST", "/connections/gmail")
    assert response.status_code == 200, response.text
    back = api.composio.agree(response.json()["auth_url"])
    host.planted |= {"link": response.json()["auth_url"].rpartition("/")[2], "way of a link": back.partition("?")[2]}
    assert (await browser.ask("GET", back)).status_code == 303
    instance = api.relay.registry.instances.find(USER)
    token = McpAccesses(api.all_rows).grant(instance.id)
    host.planted["agent's token"] = token
    headers = {"authorization": f"Bearer {token}", "accept": "application/json, text/event-stream"}

    async def call(method: str, params: object) -> httpx.Response:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return await browser.http.post(f"/mcp/{instance.id}", json=message, headers=headers)

    client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": host.plant("client")}}
    begun = await call("initialize", client)
    assert begun.status_code == 200, begun.text
    headers["mcp-session-id"] = host.planted["mcp session"] = begun.headers["mcp-session-id"]
    for arguments in (
        {"name": "GMAIL_WHO_AM_I", "arguments": {"q": host.plant("argument")}},
        host.plant("no arguments"),
    ):
        await call("tools/call", arguments)
    headers["authorization"] = f"Bearer {host.plant('forged token')}"
    assert (await call("tools/list", {})).status_code == 401


async def meets_a_broken_table(host: Host) -> None:
    """A mistake of ours is logged with its traceback, and that shows no values."""
    with host.api.all_rows.writing(guarded=False) as connection:
        connection.exec_driver_sql(
            "CREATE TRIGGER broken BEFORE INSERT ON turns BEGIN SELECT RAISE(ABORT, 'broken on purpose'); END"
        )
    message = {"message": host.plant("unwritten"), "conversation": host.plant("unwritten"), "client_key": "k7"}
    assert (await host.user.ask("POST", "/chat", json={**message, "files": []})).status_code == 500
    assert "broken on purpose" in host.logs()["api"]


async def finds_nobody(host: Host) -> None:
    """While no process is there, the door answers for them."""
    for path in (CALLBACK, "/api/hermes/connections/gmail", "/api/hermes/chat/files", "/mcp/x"):
        query = f"?code={host.plant('code of nobody')}"
        answer = await host.browser.http.get(f"{path}{query}", headers={"referer": f"https://x/{host.plant('from')}"})
        assert answer.status_code == 503


@pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)
async def test_no_log_has_anything_of_users(api: UsersApi, tmp_path: Path) -> None:
    async with served(api.agent.app()) as agent_url, contextlib.AsyncExitStack() as behind:
        api.relay.agent(USER, agent_url)
        async with opened(api, tmp_path / "host", behind) as host:
            for act in (signs_in, chats, is_disappointed_by_the_agent, is_refused, uses_a_service):
                await act(host)
            await meets_a_broken_table(host)
            await behind.aclose()
            await finds_nobody(host)
        logs = host.logs()
    secrets: dict[str, Any] = {"name": USER, "webhooks": STRIPE.secret, "project": api.composio.key}
    planted = {**host.planted, **secrets}
    assert len(planted) > 40
    assert "turn_ended" in logs["api"], "logs are looked at"
    assert "on /" in logs["connections"], "logs are looked at"
    leaks = {(name, what) for name, text in logs.items() for what, canary in planted.items() if canary in text}
    assert not leaks, [line for text in logs.values() for line in text.splitlines() if "canary" in line][:5]
