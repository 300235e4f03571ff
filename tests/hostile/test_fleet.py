"""A fleet with agents that somebody has taken over: everything is done for the others, and each of them is named."""

from pathlib import Path

import pytest

from tests.support.hostile.fleet import hostile_fleet, see_everything_done
from tests.support.suite.shard import shard

MOODS = ("drips_body", "answer_from_the_future", ("escapes", "root: 1e400", "root: escapes")[shard() % 3])
"""Of one of each class, each of an agent of its own; ``make soak`` takes all, ``make bench T=hostile`` measures."""


@pytest.mark.turns(60)
async def test_everything_is_done_for_the_others(tmp_path: Path) -> None:
    async with hostile_fleet(tmp_path, good=8, bad=len(MOODS)) as fleet:
        await see_everything_done(fleet, *MOODS)
