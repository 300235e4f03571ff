"""A shard of what tests/soak/test_hundreds.py does with hundreds of machines, and twice."""

from pathlib import Path

import pytest

from tests.support.fleets.large_fleet import Scale, trial
from tests.support.real.commands.command import local_world

SCALE = Scale(machines=15, per_cell=5, kills=1, times=1)


@pytest.mark.turns(30)
async def test_a_fleet_made_under_kills_and_broken_by_hand_comes_back(tmp_path: Path) -> None:
    async with local_world(tmp_path / "home", driver="sim") as world:
        await trial(world.with_variables(HERMESOPS_CELL_SIZE=str(SCALE.per_cell)), SCALE, seed=20260103)
