"""Agents that call ada's agent, over either database."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermesops.users.chat import carrier, service
from tests.support.real.stores.registries import TurnedClock
from tests.support.users.api import Client, UsersApi, users_api
from tests.support.users.calling import CallingAgent, calling_agent


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look again at once."""
    monkeypatch.setattr(carrier, "_AGAIN_S", 0.02)
    monkeypatch.setattr(carrier, "_LOOK_S", 0.2)
    monkeypatch.setattr(service, "_SWEEP_S", 0.1)
    monkeypatch.setattr(service, "_LOOK_S", 0.2)


@pytest.fixture
async def api(tmp_path: Path, registry_url: str, clock: TurnedClock) -> AsyncIterator[UsersApi]:
    async with users_api(tmp_path, registry_url, clock) as api:
        yield api


@pytest.fixture
async def ada(api: UsersApi) -> AsyncIterator[Client]:
    async with api.client() as client:
        yield client


@pytest.fixture
async def caller(api: UsersApi, ada: Client) -> AsyncIterator[CallingAgent]:
    async with calling_agent(api, ada) as caller:
        yield caller
