"""Every mood of agents and machines that somebody has taken over, in a fleet of 20; of real agents, each by itself."""

from collections.abc import AsyncIterator

import pytest

from tests.support.hostile.agents.hostile_moods import MOODS
from tests.support.hostile.agents.taken_over import TakenOver, see_it_backed_up, taken_over
from tests.support.hostile.fleet import ALL_MOODS, HostileFleet, hostile_fleet, see_everything_done
from tests.support.real.commands.command import Command
from tests.support.worlds.local.kept import kept_or_new_world

pytestmark = pytest.mark.timeout(7200)

BAD = 5


@pytest.fixture(scope="module")
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[HostileFleet]:
    async with hostile_fleet(tmp_path_factory.mktemp("hostile"), good=15, bad=BAD) as fleet:
        yield fleet


@pytest.mark.parametrize("first", range(0, len(ALL_MOODS), BAD))
async def test_everything_is_done_for_the_others(fleet: HostileFleet, first: int) -> None:
    await see_everything_done(fleet, *ALL_MOODS[first : first + BAD])


@pytest.fixture(scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    async with kept_or_new_world(lambda: tmp_path_factory.mktemp("home")) as command:
        yield command


@pytest.fixture(scope="module")
async def pair(world: Command) -> AsyncIterator[TakenOver]:
    async with taken_over(world) as pair:
        yield pair


@pytest.mark.machines
@pytest.mark.parametrize("mood", MOODS)
async def test_a_real_agent_is_told_of_and_backed_up(pair: TakenOver, mood: str) -> None:
    await see_it_backed_up(pair, mood)
