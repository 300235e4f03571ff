"""Random commands killed at random moments: the same command finishes each, and agents know what they were taught.

``HERMESOPS_TEST_SEED`` repeats a run, ``HERMESOPS_TEST_ACTS`` and ``HERMESOPS_TEST_MINUTES`` bound it.
"""

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.crash.random_kills import (
    ACTS_VARIABLE,
    MINUTES_VARIABLE,
    SEED_VARIABLE,
    RandomKills,
    Size,
    chosen,
    logged,
)
from tests.support.real.commands.command import Command, local_world
from tests.support.worlds.agent_memory import AgentMemory, ToldMemory, WrittenMemory
from tests.support.worlds.local.kept import kept_or_new_world

pytestmark = pytest.mark.timeout(4 * 3600)


@pytest.fixture
async def machines(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    """A world with real machines; what is left of it fails the test."""
    async with kept_or_new_world(lambda: tmp_path_factory.mktemp("machines")) as command:
        yield command


@pytest.fixture
async def simulated(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    """A world with simulated machines."""
    async with local_world(tmp_path_factory.mktemp("simulated"), driver="sim") as command:
        yield command


@pytest.mark.machines
async def test_killed_at_random_on_real_machines_the_same_command_finishes_it(
    machines: Command, tmp_path: Path
) -> None:
    size = Size(int(chosen(ACTS_VARIABLE, 60)), users=2, minutes=chosen(MINUTES_VARIABLE, 60), pause_s=3.0)
    await _kill_at_random(machines, ToldMemory(machines), size, tmp_path)


async def test_killed_at_random_on_simulated_machines_the_same_command_finishes_it(
    simulated: Command, tmp_path: Path
) -> None:
    size = Size(int(chosen(ACTS_VARIABLE, 300)), users=4, minutes=chosen(MINUTES_VARIABLE, 60), pause_s=0.5)
    await _kill_at_random(simulated, WrittenMemory(simulated), size, tmp_path)


async def _kill_at_random(world: Command, memory: AgentMemory, size: Size, folder: Path) -> None:
    seed = int(chosen(SEED_VARIABLE, random.SystemRandom().randrange(2**32)))
    print(f"{SEED_VARIABLE}={seed}")  # noqa: T201 - whoever repeats the run needs it, also of a run that was killed
    driver = RandomKills(world, memory, size, seed, report=print)
    try:
        await driver.run()
    finally:
        logged(folder, driver)
        driver.show()
    assert sum(done_step.kills for done_step in driver.history) > 0
