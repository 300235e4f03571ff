"""The API as a process of its own outside the local world: a relay elsewhere, a role of the database, two keys."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from hermesops.access.secrets.catalog import MESSAGES_KEY
from hermesops.access.secrets.keyring.key_ring import KeyRing
from hermesops.access.secrets.keyring.ring import Ring
from hermesops.api.serve import serve
from hermesops.app import Container
from hermesops.base.waiting import Pending, cancel, pause, until
from hermesops.errors import RefusedError, UsageError
from hermesops.model.fleet.instance import Instance, InstanceSettings
from hermesops.settings.environment import Environment
from hermesops.store.registry import Registry
from hermesops.store.user_rows.settings_copies import SettingsCopies
from hermesops.users.agent_settings.copies import SettingsCopying
from hermesops.users.agent_settings.service import tag_of
from tests.support.real.stores.postgresql import PostgreSql
from tests.support.real.stores.registries import TurnedClock
from tests.support.users.api import STRIPE, Client, UsersApi, users_api
from tests.support.users.calling import CallingAgent, make_caller, texts
from tests.support.users.processes import of_api

ORIGIN = "https://agents.test"
pytestmark = pytest.mark.turns(20)


@dataclass
class Served:
    """What the process is given.

    Attributes:
        home: Its folder of settings and keys.
        env: Its environment.
    """

    home: Path
    env: Environment

    def container(self) -> Container:
        """A container that fails where a part is asked for that this process must not have."""
        return _Narrow(self.env, lambda _: None)


class _Narrow(Container):
    """Nothing of a whole container but its environment."""

    def __getattribute__(self, name: str) -> Any:  # noqa: ANN401 - as any attribute
        assert name.startswith("__") or name in {"env", "warn", "report", "approved_list"}, name
        return super().__getattribute__(name)


@pytest.fixture
async def api(tmp_path: Path, registry_url: str, clock: TurnedClock) -> AsyncIterator[UsersApi]:
    clock.timestamp = datetime.now(UTC)
    async with users_api(tmp_path, registry_url, clock) as api:
        yield api


@pytest.fixture
def served(api: UsersApi, tmp_path: Path) -> Served:
    home = tmp_path / "home"
    return Served(home, of_api(home, api, ORIGIN))


@contextlib.asynccontextmanager
async def serving(served: Served, socket_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """The process on a socket of a path; a client that asks it by the origin's name."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(socket_path))
    listener.listen()
    listener.setblocking(False)
    work = asyncio.ensure_future(serve(served.container(), listener))
    transport = httpx.AsyncHTTPTransport(uds=str(socket_path))
    try:
        async with httpx.AsyncClient(transport=transport, base_url=ORIGIN.replace("https", "http"), timeout=30) as http:

            async def check() -> bool | Pending[bool]:
                if work.done():
                    work.result()
                answer = await http.get("/api/hermes/me")
                return True if answer.status_code == 401 else Pending(answer.text)

            await until(check, what="the API", timeout_s=20, every_s=0.1)
            yield http
    finally:
        await cancel(work)
        listener.close()


def changed(registry: Registry, instance: Instance, settings: InstanceSettings) -> None:
    """Change an agent's settings as an operator's request does."""
    subject = f"instance/{instance.id}"
    registry.settings_changes.change(instance.id, settings, subject=subject, intent={}, why="test")


def files_of(folder: Path) -> Mapping[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


async def test_a_message_is_answered_by_a_process_that_has_no_key_to_a_machine(
    api: UsersApi, served: Served, tmp_path: Path
) -> None:
    before = files_of(served.home)
    async with serving(served, tmp_path / "api.sock") as http:
        client = Client(http, {"authorization": f"Bearer {api.token()}"})
        events = await client.whole("hello")
        assert events[-1].kind == "done"
        shown = await client.ask("GET", "/instance")
        assert (shown.status_code, shown.json()["status"]) == (200, "running")
        body, signature = STRIPE.signed({"id": "evt_1", "type": "ping"})
        sent = await http.post("/webhooks/stripe/hermes", content=body, headers={"stripe-signature": signature})
        assert sent.status_code == 204
        assert api.relay.registry.billing.queued()
    assert files_of(served.home) == before


async def test_an_agent_of_somebody_else_calls_by_that_process(api: UsersApi, served: Served, tmp_path: Path) -> None:
    async with serving(served, tmp_path / "api.sock") as http:
        ada = Client(http, {"authorization": f"Bearer {api.token()}"})
        document = await make_caller(ada)
        caller = CallingAgent(http, f"/a2a/{api.ada.id}", str(document["key"]))
        assert texts(await caller.send("hello")).endswith("hello")
        card = (await http.get(f"{caller.path}/.well-known/agent-card.json")).json()
        assert card["supportedInterfaces"][0]["url"] == document["address"]


async def test_settings_are_shown_from_the_copy_of_a_worker(api: UsersApi, served: Served, tmp_path: Path) -> None:
    """Its role reads no column that the registry's key seals."""
    registry = api.relay.registry
    ring = Ring.parse((served.home / "staging/keys" / MESSAGES_KEY.name).read_text())
    copying = SettingsCopying(registry, lambda: SettingsCopies(api.all_rows, KeyRing(ring.current, ring.keys)))
    async with serving(served, tmp_path / "api.sock") as http:
        client = Client(http, {"authorization": f"Bearer {api.token()}"})
        never_set = await client.ask("GET", "/settings")
        assert (never_set.status_code, never_set.json()["stale"]) == (200, False)
        assert never_set.headers["etag"] == f'"{tag_of(InstanceSettings())}"'
        changed(registry, api.ada, InstanceSettings(personality="brief"))
        missing = await client.ask("GET", "/settings")
        assert (missing.status_code, missing.json()["code"]) == (503, "not-here-yet")
        assert copying.run() == 1
        shown = await client.ask("GET", "/settings")
        assert (shown.json()["personality"], shown.json()["stale"]) == ("brief", False)
        assert shown.headers["etag"] == f'"{tag_of(registry.instance_secrets.settings(api.ada.id))}"'
        changed(registry, api.ada, InstanceSettings(personality="kind"))
        stale = await client.ask("GET", "/settings")
        assert (stale.json()["personality"], stale.json()["stale"]) == ("brief", True)


async def test_it_is_asked_by_the_name_of_its_origin_alone(api: UsersApi, served: Served, tmp_path: Path) -> None:
    del api
    async with serving(served, tmp_path / "api.sock") as http:
        for host in ("localhost", "127.0.0.1:8650", "evil.test", ""):
            assert (await http.get("/api/hermes/me", headers={"host": host})).status_code == 421, host


@pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)
async def test_an_error_of_the_work_beside_ends_the_service(
    api: UsersApi, served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page that answers while nobody carries its turns is a fault that no alert sees."""
    del api

    async def write(*_: object) -> None:
        await pause(0.1)
        raise LookupError("a bug")

    monkeypatch.setattr("hermesops.api.serve.write_figures", write)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "api.sock"))
    with pytest.raises(LookupError, match="a bug"):
        await asyncio.wait_for(serve(served.container(), listener), 30)


def _without(name: str) -> Callable[[Served], Environment]:
    table, _, key = name.partition(".")

    def without(served: Served) -> Environment:
        section = getattr(served.env.settings, table).model_copy(update={key: None if key.endswith("file") else ""})
        return replace(served.env, settings=served.env.settings.model_copy(update={table: section}))

    return without


@pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    "name",
    [
        "relay.url",
        "relay.credential_file",
        "web.origin",
        "web.issuer",
        "web.client_id",
        "web.keys_url",
        "web.token_url",
    ],
)
async def test_what_is_not_set_is_named(served: Served, name: str) -> None:
    process = Served(served.home, _without(name)(served))
    with socket.socket(socket.AF_UNIX) as listener, pytest.raises(UsageError, match=name.replace(".", r"\.")) as error:
        await serve(process.container(), listener)
    assert error.value.hint


@pytest.mark.postgres
@pytest.mark.parametrize("registry_url", ["postgresql"], indirect=True)
async def test_tables_of_another_hermesops_are_refused(
    served: Served, postgresql_server: PostgreSql, api: UsersApi
) -> None:
    del postgresql_server
    with api.all_rows.writing(guarded=False) as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0001'")
    with socket.socket(socket.AF_UNIX) as listener, pytest.raises(RefusedError, match="is at revision 0001"):
        await serve(served.container(), listener)


@pytest.mark.parametrize("registry_url", ["sqlite"], indirect=True)
async def test_a_certificate_that_others_may_read_is_refused_at_the_start(served: Served) -> None:
    (served.home / "relay.pem").chmod(0o644)
    with socket.socket(socket.AF_UNIX) as listener, pytest.raises(RefusedError, match="may be read by others"):
        await serve(served.container(), listener)
