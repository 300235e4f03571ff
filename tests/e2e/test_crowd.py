"""A little of what tests/soak/test_crowd.py does in full: two computers at random, kills, restarts."""

from pathlib import Path

import pytest

from tests.support.fleets.concurrent_operators import Crowd, Size
from tests.support.fleets.two_computers import two_computers

pytestmark = pytest.mark.postgres

LITTLE = Size(commands=8, kills=2, restarts=1, users=3, operators=2)


@pytest.mark.turns(30)
async def test_what_two_computers_do_at_random_ends_well(tmp_path: Path) -> None:
    async with two_computers(tmp_path) as shared:
        crowd = Crowd(shared, LITTLE, 1, tmp_path)
        await crowd.work()
        runs = await crowd.finish()
        assert await crowd.contradictions() == [], runs
        assert crowd.kills >= LITTLE.kills
