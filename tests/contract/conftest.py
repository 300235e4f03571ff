"""What several contract tests stand on: PostgreSQL, a registry's place in either database, a local world."""

import secrets
from collections.abc import AsyncIterator, Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest

from hermesops.infra.engine.embedded.state import secrets as state_secrets
from hermesops.store.registry import Registry
from tests.support.fakes.machines.driver import PretendDriver, pretended
from tests.support.real.python_environments import LITELLM
from tests.support.real.router import litellm_router
from tests.support.real.stores import postgresql
from tests.support.real.stores.registries import TurnedClock, registry_at
from tests.support.suite.prerequisites import require
from tests.support.worlds.local.local_server import LocalCloud, serving


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[postgresql.PostgreSql]:
    require(postgresql.programs(), "PostgreSQL's programs (apt: postgresql-15)")
    with postgresql.running() as running:
        yield running


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def registry_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A registry's place: no file yet, or a database of this revision that holds nothing."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/state/registry.db"
        return
    server: postgresql.PostgreSql = request.getfixturevalue("postgresql_server")
    url = server.new_registry()
    yield url
    server.drop(url)


@pytest.fixture
def empty_url(registry_url: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """Where no registry is yet, in either database."""
    if registry_url.startswith("sqlite"):
        yield registry_url
        return
    server: postgresql.PostgreSql = request.getfixturevalue("postgresql_server")
    url = server.new_database()
    yield url
    server.drop(url)


@pytest.fixture
def one_salt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seal the states of this process's stacks with one salt: a key takes half a second, and is then derived once."""

    def token_bytes(length: int) -> bytes:
        return bytes(length) if length == state_secrets.SALT_BYTES else secrets.token_bytes(length)

    monkeypatch.setattr(state_secrets, "secrets", SimpleNamespace(token_bytes=token_bytes))
    monkeypatch.setattr(state_secrets, "_derive", _derived_once)


_derived_once = cache(state_secrets._derive)


@pytest.fixture
def clock() -> TurnedClock:
    return TurnedClock()


@pytest.fixture
def registry(registry_url: str, clock: TurnedClock) -> Iterator[Registry]:
    opened = registry_at(registry_url, clock=clock)
    yield opened
    opened.close()


@pytest.fixture
async def driver() -> AsyncIterator[PretendDriver]:
    async with pretended() as driver:
        yield driver


@pytest.fixture
async def cloud(tmp_path: Path, driver: PretendDriver) -> AsyncIterator[LocalCloud]:
    async with serving(tmp_path / "world", driver) as up:
        yield up


@pytest.fixture(scope="session")
def providers() -> Iterator[litellm_router.Providers]:
    with litellm_router.scripted_providers() as running:
        yield running


@pytest.fixture(scope="session")
def with_litellm(
    tmp_path_factory: pytest.TempPathFactory,
    postgresql_server: postgresql.PostgreSql,
    providers: litellm_router.Providers,
) -> Iterator[tuple[litellm_router.RealRouter, Registry]]:
    interpreter = LITELLM.python()
    require(interpreter, "uv, to install LiteLLM")
    assert interpreter
    folder = tmp_path_factory.mktemp("litellm") / "router"
    with (
        litellm_router.registry_for_routers(postgresql_server) as (registry, url),
        litellm_router.running(folder, interpreter, litellm_router.as_router(url), providers) as router,
    ):
        yield router, registry
