"""A hundred times a release that nobody confirms: whatever happens meanwhile, the machine is back by itself."""

import statistics
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from hermesops.wire.protocol import PROGRAM
from tests.support.crash.programs.unconfirmed_release import BLOWS, Survived, suffer, timestamps
from tests.support.images.builds import Made, Workshop, make
from tests.support.real.machines.agents import Agent, agents_world, living_agent
from tests.support.real.machines.machine import base_python
from tests.support.releases.real_agents import RealReleases
from tests.support.worlds.local.converged import ConvergedWorld

pytestmark = [pytest.mark.machines, pytest.mark.timeout(4 * 3600)]

TIMES = 100
CYCLES = 20
SEED = 6


@pytest.fixture(scope="module")
async def world() -> AsyncIterator[ConvergedWorld]:
    async with agents_world() as world:
        yield world


async def _brought(built_image: Made, agent: Agent, folder: Path) -> str:
    """Another release on the machine, in a slot of its own; its id."""
    releases = RealReleases(built_image.workshop.releases, built_image.release, base_python(), folder)
    other = releases.same("other")
    await releases.deploy(agent.channel, other)
    return other.id


async def test_the_machine_comes_back_a_hundred_times_of_a_hundred(world: ConvergedWorld, tmp_path: Path) -> None:
    built_image = await make(Workshop(world))
    async with living_agent(world, built_image.image_id) as agent:
        other = await _brought(built_image, agent, tmp_path)
        await agent.run(f"{PROGRAM} release activate {other} && {PROGRAM} release rollback", timeout_s=300)
        survived = [await suffer(agent.channel, other, blow, timestamp) for blow, timestamp in timestamps(TIMES, SEED)]
        _show(survived)
        assert [each for each in survived if not each.ok] == []

        gaps = []
        for _ in range(CYCLES):
            words = f"release activate {other} --no-trial > /dev/null && {PROGRAM} release confirm {other} > /dev/null"
            await agent.run(f"{PROGRAM} {words}", timeout_s=120)
            gaps.append(await agent.run(f"{PROGRAM} release rollback", timeout_s=60))
        assert all('"healthy": true' in gap for gap in gaps)


def _show(survived: Sequence[Survived]) -> None:
    table = Table("blow", "times", "back", "median s", "worst s", title="Nobody confirms")
    for blow in BLOWS:
        held = [each for each in survived if each.blow == blow]
        if held:
            seconds = [each.seconds for each in held]
            figures = (
                len(held),
                sum(each.ok for each in held),
                f"{statistics.median(seconds):.0f}",
                f"{max(seconds):.0f}",
            )
            table.add_row(blow, *map(str, figures))
    Console(width=120).print(table)
