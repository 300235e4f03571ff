"""A little of what tests/soak/test_random_kills.py does in full: other commands and moments with each commit."""

from pathlib import Path

import pytest

from tests.support.crash.random_kills import SEED_VARIABLE, RandomKills, Size, chosen
from tests.support.real.commands.command import local_world
from tests.support.suite.shard import shard
from tests.support.worlds.agent_memory import WrittenMemory

LITTLE = Size(acts=6, users=2, minutes=0.4, pause_s=0.3)


@pytest.mark.turns(30)
async def test_killed_at_random_the_same_command_finishes_it(tmp_path: Path) -> None:
    seed = int(chosen(SEED_VARIABLE, shard()))
    async with local_world(tmp_path, driver="sim") as command:
        driver = RandomKills(command, WrittenMemory(command), LITTLE, seed)
        await driver.run()
    assert driver.history
