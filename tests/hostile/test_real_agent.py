"""A real agent on a real machine that somebody has taken over: operators are told, and others do not notice."""

import uuid
from collections.abc import AsyncIterator

import pytest

from tests.support.command import Command
from tests.support.kept_world import kept_or_new_world
from tests.support.taken_over import check_text, set_mood, take_over

pytestmark = pytest.mark.machines

MOODS = ("drips_body", "endless_body", "bomb", "escapes", "half_closed", "list_in_readiness")
"""One of each class; ``make soak`` takes all."""

LONGEST_S = 120.0
"""Seconds for one command, on a computer that is at other things too."""


@pytest.fixture(scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    async with kept_or_new_world(lambda: tmp_path_factory.mktemp("home")) as command:
        yield command


@pytest.fixture(scope="module")
async def taken(world: Command) -> AsyncIterator[tuple[str, str]]:
    """Two users: the agent of the first was taken over, that of the second is as it should be."""
    bad, good = (f"u{uuid.uuid4().hex[:8]}" for _ in range(2))
    for user in (bad, good):
        await world.ok("provision", user, "--plan", "light")
    await take_over(world, bad, "links")
    yield bad, good
    for user in (bad, good):
        await world.run("instance", "terminate", user, "--yes", "--reason", "test")


async def gateway_of(world: Command, user: str) -> str:
    ran = await world.run("instance", "show", user, "--json", timeout_s=LONGEST_S)
    check_text(ran)
    return str(ran.json["instance"]["gateway"])


@pytest.mark.parametrize("mood", MOODS)
async def test_an_operator_is_told_and_the_agent_can_be_backed_up(
    world: Command, taken: tuple[str, str], mood: str
) -> None:
    bad, good = taken
    await set_mood(world, bad, proxy=mood, node=mood)
    assert await gateway_of(world, bad) in {"silent", "degraded"}
    assert await gateway_of(world, good) == "ok"
    backed_up = await world.run("backup", "create", bad, timeout_s=LONGEST_S)
    check_text(backed_up)
    assert backed_up.exit_code == 0, str(backed_up)


async def test_it_can_be_suspended_whatever_it_answers(world: Command, taken: tuple[str, str]) -> None:
    bad, _ = taken
    await set_mood(world, bad, proxy="silent", node="huge_counts")
    ran = await world.run("instance", "suspend", bad, "--reason", "test", timeout_s=LONGEST_S)
    check_text(ran)
    assert ran.exit_code == 0, str(ran)
