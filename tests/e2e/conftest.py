"""One local world with one image for all tests that live in it: building an image takes a minute.

Who works on these tests keeps a world: ``HERMESOPS_TEST_HOME`` names its home, and it is neither made nor purged.
"""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.command import Command, local_world


@pytest.fixture(scope="session")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    """A running local world with an image; its commands run as a user would run them."""
    if kept := os.environ.get("HERMESOPS_TEST_HOME"):  # noqa: TID251 - a choice of whoever runs the tests
        yield Command(Path(kept))
        return
    home = tmp_path_factory.mktemp("home")
    async with local_world(home) as command:
        yield command
