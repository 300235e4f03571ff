"""Parts of the users' platform die or hang under load; the full count is ``tests/soak/test_user_kills``."""

from pathlib import Path

import pytest

from tests.support.users.kills.chatting import Habits
from tests.support.users.kills.contradictions import contradictions
from tests.support.users.kills.outcome import show
from tests.support.users.kills.run import KillRun, Size
from tests.support.users.kills.world import kill_world

pytestmark = [pytest.mark.postgres, pytest.mark.turns(90), pytest.mark.timeout(600)]

SEED = 128
SIZE = Size(
    kills=8,
    subscribers=2,
    minutes=2,
    every_s=2.0,
    away_s=1.0,
    hang_share=0.5,
    hang_s=(2.0, 9.0),
    habits=Habits(every_s=3.0, asks_share=0.3, slow_share=0.0),
)
"""With this seed a process of the API hangs for longer than the six seconds of a lease, and the relay for six."""


async def test_eight_kills_lose_nothing_and_double_nothing(tmp_path: Path) -> None:
    async with kill_world(tmp_path, chatters=6, seed=SEED, lease_s=6) as world:
        run = KillRun(world, SIZE, SEED, print)
        try:
            await run.work()
            wrong = await contradictions(run)
        finally:
            show(run)
    assert not wrong, "\n".join(wrong)
    assert len(run.kills) == SIZE.kills
    assert run.messages
    assert all(purchase.ended for purchase in run.purchases)
