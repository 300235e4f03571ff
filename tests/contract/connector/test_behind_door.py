"""Agents' sockets through the platform's door: a real nginx with the role's file, before the connector."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from hermesops.base.waiting import cancel
from hermesops.model.fleet.instance import Instance
from hermesops.model.messaging.files import LARGEST
from hermesops.store.registry import Registry
from hermesops.store.registry.database import Database
from hermesops.users.messaging.files.references import MEDIA
from tests.support.real import edge
from tests.support.real.monitoring.platform_host import programs
from tests.support.real.stores.registries import placed
from tests.support.suite.prerequisites import require
from tests.support.users.messaging import Messaging, bearer, greeted, messaging, unix_listener

pytestmark = [pytest.mark.turns(10), pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)]

_HAS = {"hermes_platform_edge_has_connector": True}


@dataclass
class Door:
    """The door before the connector of a world."""

    world: Messaging
    edge: edge.Edge
    folder: Path

    def dialling(self, token: str, path: str = "/relay") -> connect:
        """Open a socket with a bearer."""
        headers = {"authorization": f"Bearer {token}"}
        url = f"{self.edge.url.replace('https', 'wss')}{path}"
        return connect(url, ssl=self.edge.context(), additional_headers=headers, proxy=None)

    def token(self, instance: Instance) -> str:
        return bearer(instance.id, self.world.secrets_of(instance.id)[-1])

    async def figures(self) -> str:
        """What Prometheus reads."""
        async with httpx.AsyncClient(trust_env=False, timeout=30) as http:
            answer = await http.get(f"http://{edge.HOST}:{self.edge.asked_port}/connector")
        assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (200, "text/plain")
        return answer.text


@contextlib.asynccontextmanager
async def opened(folder: Path, database: Database, variables: dict[str, object] | None = None) -> AsyncIterator[Door]:
    """A door before a connector."""
    root = programs()
    require(root, "Debian's programs")
    assert root
    async with messaging(database) as world:
        serving = asyncio.ensure_future(world.connector().serve(unix_listener(folder / "connector.sock")))
        try:
            with edge.running(folder, root, [folder / "api.sock"], {**_HAS, **(variables or {})}) as door:
                yield Door(world, door, folder)
        finally:
            await cancel(serving)


async def test_an_agents_files_pass_the_door_up_to_25_mb(tmp_path: Path, database: Database, ada: Instance) -> None:
    async with opened(tmp_path, database) as door:
        headers = {"authorization": f"Bearer {door.token(ada)}", "x-media-filename": "big.bin"}
        async with httpx.AsyncClient(verify=door.edge.context(), trust_env=False, timeout=60) as http:
            url = f"{door.edge.url}{MEDIA}"
            answer = await http.post(url, headers=headers, content=bytes(LARGEST))
            assert (answer.status_code, set(answer.json())) == (200, {"id"})
            assert (await http.post(url, headers=headers, content=bytes(27 << 20))).status_code == 413
            assert (await http.post(url, content=b"x")).status_code == 401
            assert (await http.get(f"{url}/1-0-1-{'0' * 40}")).status_code == 404
        assert door.token(ada) not in (tmp_path / "nginx.log").read_text()


async def test_an_agent_opens_its_socket_and_prometheus_counts_it(
    tmp_path: Path, database: Database, ada: Instance
) -> None:
    async with opened(tmp_path, database) as door:
        assert "hermesops_connector_sockets 0\n" in await door.figures()
        token = door.token(ada)
        async with door.dialling(token) as connection:
            gateway = await greeted(connection)
            assert (await gateway.send("tg.1", "psst"))["error"] == "not_your_chat"
            assert "hermes_platform_answers 1\nhermesops_connector_sockets 1\n" in await door.figures()
        assert token not in (tmp_path / "nginx.log").read_text()


@pytest.mark.parametrize("path", ["/relay", "/relay?x=1", "/relay/", "/relay/media", "/Relay", "/metrics"])
async def test_nothing_else_of_the_connector_is_reached(
    tmp_path: Path, database: Database, ada: Instance, path: str
) -> None:
    async with opened(tmp_path, database) as door:
        token = "x" if path == "/relay" else door.token(ada)
        with pytest.raises(InvalidStatus, match="HTTP 401" if path == "/relay" else "HTTP (404|503)"):
            async with door.dialling(token, path):
                pass


async def test_only_its_one_path_goes_to_the_connector(tmp_path: Path, database: Database) -> None:
    async with (
        opened(tmp_path, database) as door,
        httpx.AsyncClient(verify=door.edge.context(), trust_env=False) as http,
    ):
        statuses = [
            (await http.get(f"{door.edge.url}{path}")).status_code for path in ("/relay", "/relay/media", "/metrics")
        ]
    assert statuses == [401, 503, 503], "nobody but the users' API, which is not there, is asked for others"


async def test_sockets_of_one_address_are_counted(tmp_path: Path, database: Database, registry: Registry) -> None:
    agents = [placed(registry, name) for name in ("ada", "bob", "cyd")]
    async with (
        opened(tmp_path, database, {"hermes_platform_edge_sockets": 2}) as door,
        contextlib.AsyncExitStack() as stack,
    ):
        for agent in agents[:2]:
            await greeted(await stack.enter_async_context(door.dialling(door.token(agent))))
        with pytest.raises(InvalidStatus, match="HTTP 429"):
            async with door.dialling(door.token(agents[2])):
                pass


async def test_without_a_connector_the_door_opens_no_socket(tmp_path: Path, database: Database, ada: Instance) -> None:
    async with opened(tmp_path, database, {"hermes_platform_edge_has_connector": False}) as door:
        with pytest.raises(InvalidStatus, match="HTTP 503"):
            async with door.dialling(door.token(ada)):
                pass
