"""Telegram is down for an hour, and has as many answers waiting as ten minutes of its pace can deliver afterwards."""

from contextlib import closing
from pathlib import Path

import pytest

from hermesops.store.registry.database import Database
from tests.support.real.stores.registries import TurnedClock, registry_at
from tests.support.users.messaging import messaging
from tests.support.users.outage import Outage

pytestmark = [pytest.mark.turns(900), pytest.mark.timeout(3600)]

CHATS, ANSWERS = 150, 60
DRAINED_S = 600


async def test_thousands_of_answers_are_delivered_within_ten_minutes_and_no_limit_is_exceeded(tmp_path: Path) -> None:
    clock, url = TurnedClock(), f"sqlite:///{tmp_path}/registry.db"
    with closing(registry_at(url, clock=clock)) as registry, closing(Database(url, clock=clock)) as database:
        async with messaging(database) as world:
            outage = Outage(world, registry, clock, chats=CHATS, answers=ANSWERS)
            await outage.last(502)
            seconds = await outage.drain(within_s=DRAINED_S)
            assert not outage.is_open, f"answers wait after {seconds:.0f} s"
            assert not world.telegram.broken, "limits that Telegram documents"
            assert outage.wrong_chats() == []
    print(f"\n{CHATS * ANSWERS} answers of an hour's outage were delivered within {seconds:.0f} s")  # noqa: T201 - the figure
