"""One world and one image for all tests of machines with an agent: applying every role takes a minute and more."""

import os
from collections.abc import AsyncIterator

import pytest

from tests.support.images.builds import Made, Workshop, make
from tests.support.real.machines.agents import agents_world
from tests.support.suite.prerequisites import require


@pytest.fixture(scope="session")
async def workshop() -> AsyncIterator[Workshop]:
    """A world with machines, a model router and what builds images."""
    require(os.geteuid() == 0, "root")
    async with agents_world() as world:
        yield Workshop(world)


@pytest.fixture(scope="session")
async def built_image(workshop: Workshop) -> Made:
    """The image we ship, built once."""
    return await make(workshop)
