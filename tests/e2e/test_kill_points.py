"""A shard of what tests/soak/test_kill_points.py does whole, another one with each commit."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.crash import kill_acts, kill_points
from tests.support.real.commands.command import Command, local_world
from tests.support.suite.shard import shard

SHARDS = 40
ON_CELLS = (kill_acts.STACK_UP, kill_acts.STACK_REPLACE, kill_acts.STACK_REFRESH, kill_acts.STACK_DESTROY)
OF_LIVES = (
    kill_acts.GIVE_BACK,
    kill_acts.RESUME_ANEW,
    kill_acts.ROLLOUT,
)  # others are for the soak: each life takes many commands
TRIED = (
    kill_acts.PROVISION,
    kill_acts.TERMINATE,
    ON_CELLS[shard() % len(ON_CELLS)],
    OF_LIVES[shard() % len(OF_LIVES)],
)


@pytest.fixture(scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    async with local_world(tmp_path_factory.mktemp("kills"), driver="sim") as command:
        yield command


@pytest.mark.turns(10, each=True)
@pytest.mark.parametrize("act", TRIED, ids=("provision", "terminate", "on a cell", "of a life"))
async def test_killed_at_a_write_the_same_command_finishes_it(
    world: Command, act: kill_acts.Act, tmp_path: Path
) -> None:
    writes = await kill_points.writes_of(world, act, tmp_path)
    points = range(1 + shard() % SHARDS, len(writes) + 1, SHARDS)
    cuts = await kill_points.cut(world, act, points, tmp_path)
    assert [cut for cut in cuts if cut.wrong] == []
    assert await kill_points.check_whole(world) == ""
