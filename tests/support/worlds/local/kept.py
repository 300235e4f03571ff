"""The world that end-to-end tests live in: a new one, or one that whoever works on these tests keeps.

``HERMESOPS_TEST_HOME`` names the home of a kept one; it is neither made nor purged.
"""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.real.commands.command import Command, local_world


@asynccontextmanager
async def kept_or_new_world(new_home: Callable[[], Path]) -> AsyncIterator[Command]:
    """A running local world with an image; its commands run as a user would run them."""
    if kept := os.environ.get("HERMESOPS_TEST_HOME"):  # noqa: TID251 - a choice of whoever runs the tests
        yield Command(Path(kept))
        return
    async with local_world(new_home()) as command:
        yield command
