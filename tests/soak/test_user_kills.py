"""Parts of the users' platform killed or stopped 200 times under load: nothing is lost, and nothing comes twice.

No turn, event or cent; and no agent does what its user did not approve. A quarter of the parts hang for a while instead
(SIGSTOP, SIGCONT): others go on with what they had, and then they come back.
``HERMESOPS_TEST_SEED`` repeats a run's points, ``HERMESOPS_TEST_KILLS`` and ``HERMESOPS_TEST_MINUTES`` bound it.
"""

import random
from pathlib import Path

import pytest

from tests.support.crash.random_kills import MINUTES_VARIABLE, SEED_VARIABLE, chosen
from tests.support.users.kills.contradictions import contradictions
from tests.support.users.kills.outcome import show
from tests.support.users.kills.run import KillRun, Size
from tests.support.users.kills.world import kill_world

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(2 * 3600)]

KILLS_VARIABLE = "HERMESOPS_TEST_KILLS"
CHATTERS, SUBSCRIBERS = 50, 10


async def test_whatever_dies_each_turn_ends_once_and_each_cent_buys_one_agent(tmp_path: Path) -> None:
    seed = int(chosen(SEED_VARIABLE, random.SystemRandom().randrange(2**32)))
    print(f"{SEED_VARIABLE}={seed}")  # noqa: T201 - whoever repeats the run needs it, also of a run that was killed
    size = Size(int(chosen(KILLS_VARIABLE, 200)), SUBSCRIBERS, chosen(MINUTES_VARIABLE, 60))
    async with kill_world(tmp_path, chatters=CHATTERS, seed=seed) as world:
        run = KillRun(world, size, seed, print)
        try:
            await run.work()
            wrong = await contradictions(run)
        finally:
            show(run)
    assert not wrong, "\n".join(wrong[:100])
    assert len(run.kills) > 0
    assert any(purchase.ended for purchase in run.purchases)
