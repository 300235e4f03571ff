"""A fleet with agents that somebody has taken over: everything is done for the others, and each of them is named."""

from collections.abc import AsyncIterator

import pytest

from tests.support.command import Ran
from tests.support.hostile_fleet import QUICK, HostileFleet, hostile_fleet
from tests.support.simulated_releases import built
from tests.support.taken_over import check_text

MOODS = ("drips_body", "escapes", "root: 1e400", "root: escapes")
"""One of each class; the soak and ``make bench T=hostile`` take more."""

AT_ONCE = ("--max-unavailable", "100%", "--stages", "20%,100%")
GOOD, BAD = 6, 2


@pytest.fixture(scope="module")
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[HostileFleet]:
    async with hostile_fleet(tmp_path_factory.mktemp("hostile"), good=GOOD, bad=BAD) as fleet:
        yield fleet


async def run(fleet: HostileFleet, *words: str, ends: set[int], names: bool = True) -> Ran:
    """Run a command that has to end so; where it did not do everything it names every bad one."""
    ran = await fleet.world.run(*words)
    check_text(ran)
    assert ran.exit_code in ends, str(ran)
    if ran.exit_code and names:
        assert all(user in ran.stdout + ran.stderr for user in fleet.bad), str(ran)
    return ran


@pytest.mark.parametrize("mood", MOODS)
async def test_everything_is_done_for_the_others(fleet: HostileFleet, mood: str) -> None:
    world, good = fleet.world, set(fleet.good)
    release = await built(world, mood.replace(" ", "-").replace(":", ""))
    fleet.make_all_due()
    async with fleet.in_mood(mood):
        await run(fleet, "instance", "show", fleet.bad[0], ends={0, 4}, names=False)
        shown = await run(fleet, "instance", "show", fleet.good[0], "--json", ends={0})
        assert shown.json["instance"]["gateway"] == "ok"
        await run(fleet, "chore", "run", "tokens", ends={0, 6})
        await run(fleet, "chore", "run", "backups", ends={0, 6})
        await run(fleet, "fleet", "drift", "--deep", ends={0, 6, 7})
        ran = await run(fleet, "rollout", "start", release, "--all", *QUICK, *AT_ONCE, ends={6}, names=False)
        told = (await world.ok("rollout", "status", "--json")).json
        owed = {row["user"]: row["why"] for row in (await run(fleet, "fleet", "owed", "--json", ends={0})).json["owed"]}
    reached = {one["user"] for one in told["targets"] if one["on_release"]}
    assert (told["rollout"]["state"], reached) == ("done", good), str(ran)
    assert owed.keys() == set(fleet.bad)
    assert all("before anything was changed" in why for why in owed.values()), owed
    backed = {row["user"]: row for row in (await world.ok("backup", "list", "--json")).json["backups"]}
    assert good <= backed.keys()
