"""One local world with one image for all tests that live in it: building an image takes a minute."""

from collections.abc import AsyncIterator

import pytest

from tests.support.command import Command, local_world


@pytest.fixture(scope="session")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    """A running local world with an image; its commands run as a user would run them."""
    home = tmp_path_factory.mktemp("home")
    async with local_world(home) as command:
        yield command
