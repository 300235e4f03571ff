"""Connections in a process of their own, behind the platform's door and beside the API's: who holds which key."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from hermesops.access.secrets.catalog import CONNECTIONS_KEY, MESSAGES_KEY
from hermesops.api.serve import serve as serve_api
from hermesops.api.serve_connections import serve as serve_connections
from hermesops.app import Container
from hermesops.base.waiting import Pending, cancel, until
from hermesops.errors import RefusedError, UsageError
from hermesops.settings.environment import Environment
from hermesops.store.user_rows.mcp_access import McpAccesses
from tests.support.real import edge
from tests.support.real.monitoring.platform_host import programs
from tests.support.real.stores.registries import TurnedClock
from tests.support.suite.prerequisites import require
from tests.support.users.api import UsersApi, users_api
from tests.support.users.browser import Browser
from tests.support.users.processes import NAME, of_api, of_connections

pytestmark = pytest.mark.turns(10)

OF_AGENTS = "agents.test:18091"
INITIALIZE = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x"}}
OF_DOOR = {"hermes_platform_edge_has_connections": True}


@dataclass
class Host:
    """A platform's host: the door, and two processes behind it.

    Attributes:
        connections: Environment of the process of connections.
        folder: With the sockets of both, ``api.sock`` and ``connections.sock``.
        http: Trusts the door.
    """

    door: edge.Edge
    connections: Environment
    folder: Path
    http: httpx.AsyncClient

    @property
    def browser(self) -> Browser:
        return Browser(self.http, self.door.url)

    @contextlib.asynccontextmanager
    async def behind(self, process: str) -> AsyncIterator[httpx.AsyncClient]:
        """A client of one process, past the door."""
        transport = httpx.AsyncHTTPTransport(uds=str(self.folder / f"{process}.sock"))
        headers = {"host": self.door.url.removeprefix("https://")}
        async with httpx.AsyncClient(transport=transport, base_url="http://x", headers=headers) as http:
            yield http


@pytest.fixture
async def api(tmp_path: Path, registry_url: str, clock: TurnedClock) -> AsyncIterator[UsersApi]:
    clock.timestamp = datetime.now(UTC)
    async with users_api(tmp_path, registry_url, clock) as api:
        yield api


@contextlib.asynccontextmanager
async def process(serve: Callable[[socket.socket], Awaitable[None]], path: Path) -> AsyncIterator[None]:
    """A process on a socket of a path."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        listener.setblocking(False)
        work = asyncio.ensure_future(serve(listener))
        try:
            transport = httpx.AsyncHTTPTransport(uds=str(path))
            async with httpx.AsyncClient(transport=transport, base_url="http://x") as http:

                async def answers() -> bool | Pending[bool]:
                    if work.done():
                        work.result()
                    return True if (await http.get("/")).status_code == 421 else Pending("another answer")

                await until(answers, what="the process", timeout_s=20, every_s=0.1)
            yield
        finally:
            await cancel(work)


@pytest.fixture
async def host(api: UsersApi, tmp_path: Path) -> AsyncIterator[Host]:
    root = programs()
    require(root, "Debian's programs")
    assert root
    folder = tmp_path / "door"
    folder.mkdir()
    variables = {**OF_DOOR, "__hermes_platform_edge_of_connections": str(folder / "connections.sock")}
    async with contextlib.AsyncExitStack() as stack:
        door = stack.enter_context(edge.running(folder, root, [folder / "api.sock"], variables))
        api.issuer._pages = door.url
        homes = tmp_path / "api", tmp_path / "connections"
        own = of_api(homes[0], api, door.url)
        ring = (homes[0] / NAME / "keys" / MESSAGES_KEY.name).read_text()
        connections = of_connections(homes[1], api, door.url, f"https://{OF_AGENTS}/mcp", ring)
        container = Container(own, lambda _: None)
        await stack.enter_async_context(process(lambda at: serve_api(container, at), folder / "api.sock"))
        serve = process(lambda at: serve_connections(connections, at), folder / "connections.sock")
        await stack.enter_async_context(serve)
        options: dict[str, Any] = {"verify": door.context(), "timeout": 30, "trust_env": False}
        http = await stack.enter_async_context(httpx.AsyncClient(**options))
        yield Host(door, connections, folder, http)


def files_of(folder: Path) -> Mapping[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


async def connected(api: UsersApi, browser: Browser) -> None:
    """Connect a mailbox as a user does, by two processes with one session."""
    await browser.sign_in()
    response = await browser.change("POST", "/connections/gmail")
    assert response.status_code == 200, response.text
    back = await browser.ask("GET", api.composio.agree(response.json()["auth_url"]))
    assert (back.status_code, back.headers["location"]) == (303, "/hermes-max/chat#/connections"), back.text
    listed = (await browser.ask("GET", f"{browser.origin}/api/hermes/connections")).json()
    assert {each["service"]: each["state"] for each in listed if each["offered"]} == {"gmail": "active"}


async def test_a_user_connects_a_service_and_the_agent_uses_it_by_a_process_that_writes_no_file(
    api: UsersApi, host: Host
) -> None:
    before = files_of(host.connections.folder.parent)
    await connected(api, host.browser)
    token = McpAccesses(api.all_rows).grant(api.ada.id)
    headers = {"authorization": f"Bearer {token}", "accept": "application/json, text/event-stream"}

    async def send(method: str, params: object, name: str = "") -> httpx.Response:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        url = f"{host.door.url}/mcp/{api.ada.id}"
        return await host.http.post(url, json=message, headers={**headers, **({"host": name} if name else {})})

    begun = await send("initialize", INITIALIZE)
    assert begun.status_code == 200, begun.text
    headers["mcp-session-id"] = begun.headers["mcp-session-id"]
    for name in ("", OF_AGENTS):
        tools = (await send("tools/list", {}, name)).json()["result"]["tools"]
        assert [tool["name"] for tool in tools] == ["GMAIL_WHO_AM_I"], "asked by either of its names"
    assert (await send("tools/list", {}, "other.test")).status_code == 421
    headers["authorization"] = "Bearer x"
    assert (await send("tools/list", {})).status_code == 401
    assert files_of(host.connections.folder.parent) == before


async def test_each_process_serves_its_own_routes_and_no_other(api: UsersApi, host: Host) -> None:
    bearer = {"authorization": f"Bearer {api.token()}"}
    async with host.behind("api") as http:
        assert (await http.get("/api/hermes/me", headers=bearer)).status_code == 200
        assert (await http.get("/api/hermes/connections", headers=bearer)).status_code == 501, "it has no key"
        assert (await http.post(f"/mcp/{api.ada.id}", json={})).status_code == 404
    async with host.behind("connections") as http:
        assert (await http.get("/api/hermes/connections", headers=bearer)).status_code == 200
        for path in ("/api/hermes/me", "/api/hermes/settings", "/hermes-max/chat", "/hermes-max/sign-in", "/health"):
            assert (await http.get(path, headers=bearer)).status_code == 404, path
        assert (await http.post("/webhooks/stripe/hermes", content=b"{}")).status_code == 404


async def test_a_session_that_ended_at_the_api_is_none_at_the_other_process(api: UsersApi, host: Host) -> None:
    del api
    browser = host.browser
    await browser.sign_in()
    cookies = dict(browser.cookies)
    url = f"{browser.origin}/api/hermes/connections"
    assert (await browser.ask("GET", url)).status_code == 200
    out = await browser.ask(
        "POST",
        f"{browser.origin}/hermes-max/sign-out",
        headers={"origin": browser.origin, "x-hermes-request": "1", "sec-fetch-site": "same-origin"},
    )
    assert out.status_code == 204, out.text
    browser.cookies = cookies
    assert (await browser.ask("GET", url)).status_code == 401


@pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("name", ["web.origin", "web.issuer", "web.client_id", "web.keys_url", "connections.key"])
async def test_what_is_missing_is_named(api: UsersApi, tmp_path: Path, name: str) -> None:
    home = tmp_path / "home"
    env = of_connections(home, api, "https://agents.test", f"https://{OF_AGENTS}/mcp")
    if name == "connections.key":
        (home / NAME / "keys" / CONNECTIONS_KEY.name).unlink()
    else:
        web = env.settings.web.model_copy(update={name.partition(".")[2]: ""})
        env = replace(env, settings=env.settings.model_copy(update={"web": web}))
    with socket.socket(socket.AF_UNIX) as listener, pytest.raises(UsageError, match=name.replace(".", r"\.")) as error:
        await serve_connections(env, listener)
    assert error.value.hint


@pytest.mark.postgres
@pytest.mark.parametrize("registry_url", ["postgresql"], indirect=True)
async def test_tables_of_another_hermesops_are_refused(api: UsersApi, tmp_path: Path) -> None:
    env = of_connections(tmp_path / "home", api, "https://agents.test", f"https://{OF_AGENTS}/mcp")
    with api.all_rows.writing(guarded=False) as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0001'")
    with socket.socket(socket.AF_UNIX) as listener, pytest.raises(RefusedError, match="is at revision 0001"):
        await serve_connections(env, listener)
