"""One local world with one image for all tests that live in it: building an image takes a minute."""

from collections.abc import AsyncIterator

import pytest

from tests.support.command import Command
from tests.support.kept_world import kept_or_new_world


@pytest.fixture(scope="session")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    """The world; see ``kept_or_new_world``."""
    async with kept_or_new_world(lambda: tmp_path_factory.mktemp("home")) as command:
        yield command
