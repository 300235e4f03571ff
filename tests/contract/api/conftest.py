"""The users' API over either database."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.real.stores.registries import TurnedClock
from tests.support.users.api import Client, UsersApi, users_api


@pytest.fixture
async def api(tmp_path: Path, registry_url: str, clock: TurnedClock) -> AsyncIterator[UsersApi]:
    async with users_api(tmp_path, registry_url, clock) as api:
        yield api


@pytest.fixture
async def ada(api: UsersApi) -> AsyncIterator[Client]:
    async with api.client() as client:
        yield client
