"""A real agent on a real machine that somebody has taken over: operators are told, and others do not notice."""

from collections.abc import AsyncIterator

import pytest

from tests.support.hostile.agents.taken_over import (
    LONGEST_S,
    TakenOver,
    check_text,
    have_others_stopped,
    see_it_backed_up,
    set_mood,
    taken_over,
)
from tests.support.real.commands.command import Command

pytestmark = [pytest.mark.machines, pytest.mark.turns(60)]

MOODS = ("drips_body", "endless_body", "bomb", "escapes", "half_closed", "list_in_readiness")
"""One of each class; ``make soak`` takes all."""


@pytest.fixture(scope="module")
async def pair(world: Command) -> AsyncIterator[TakenOver]:
    async with taken_over(world) as pair:
        yield pair


@pytest.mark.parametrize("mood", MOODS)
async def test_an_operator_is_told_and_the_agent_is_backed_up(pair: TakenOver, mood: str) -> None:
    await see_it_backed_up(pair, mood)


async def test_who_stops_all_of_its_user_is_named(pair: TakenOver) -> None:
    world = pair.world
    await set_mood(world, pair.bad, proxy="silent", node="huge_counts")
    await have_others_stopped(world, pair.bad)
    backed_up = await world.run("backup", "create", pair.bad, timeout_s=LONGEST_S)
    check_text(backed_up)
    assert "was stopped by a signal of the agent's user" in backed_up.stderr, str(backed_up)
    assert (backed_up.exit_code, await pair.gateway(pair.good)) == (4, "ok")
    refused = await world.run("instance", "suspend", pair.bad, "--reason", "test")
    operation = refused.stderr.partition("hermesops operation abandon ")[2].split()[0]
    await world.ok("operation", "abandon", operation, "--reason", "test", "--yes")


async def test_it_is_suspended_whatever_it_answers_and_stops(pair: TakenOver) -> None:
    ran = await pair.world.run("instance", "suspend", pair.bad, "--reason", "test", timeout_s=LONGEST_S)
    check_text(ran)
    assert ran.exit_code == 0, str(ran)
