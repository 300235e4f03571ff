"""A fleet with agents that somebody has taken over: everything is done for the others, and each of them is named."""

from collections.abc import AsyncIterator

import pytest

from tests.support.hostile_fleet import HostileFleet, hostile_fleet, see_everything_done

MOODS = ("drips_body", "escapes", "root: 1e400", "root: escapes")
"""One of each class; ``make soak`` takes all, and ``make bench T=hostile`` measures."""


@pytest.fixture(scope="module")
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[HostileFleet]:
    async with hostile_fleet(tmp_path_factory.mktemp("hostile"), good=6, bad=2) as fleet:
        yield fleet


@pytest.mark.parametrize("mood", MOODS)
async def test_everything_is_done_for_the_others(fleet: HostileFleet, mood: str) -> None:
    await see_everything_done(fleet, mood)
