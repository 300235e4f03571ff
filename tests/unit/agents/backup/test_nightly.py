"""A night of a thousand agents: each backed up once, none left out, never more at once than may be, and no peak."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID, uuid5

from hermesops.agents.backup.daily.nightly import Nightly
from hermesops.errors import UnavailableError
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.ids import InstanceId
from tests.support.fakes.instances import ADA
from tests.support.fakes.registry import FakeRegistry

MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)
AT_ONCE = 4


def agent(number: int) -> Instance:
    id_ = InstanceId(str(uuid5(UUID(int=0), str(number))))
    return replace(ADA, id=id_, user_alias=f"u{number}", created_at=MIDNIGHT - timedelta(days=9))


class Fleet(FakeRegistry):
    """Agents with the time of their newest backup, on a clock that is turned."""

    def __init__(self, count: int) -> None:
        self.timestamp = MIDNIGHT
        self.agents = [agent(number) for number in range(count)]
        self.newest: dict[InstanceId, datetime | None] = {instance.id: MIDNIGHT for instance in self.agents}
        self.made: Counter[str] = Counter()
        self.at: list[datetime] = []
        self.running = self.most = 0
        self.silent: set[str] = set()

    def now(self) -> datetime:
        return self.timestamp

    def instances_list(self, *, status: InstanceStatus | None = None) -> Sequence[Instance]:
        return [instance for instance in self.agents if instance.status is status]

    def backups_newest(self) -> Mapping[InstanceId, datetime | None]:
        return self.newest

    async def back_up(self, instance: Instance) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0)  # noqa: TID251 - lets others in between, as a machine would
        self.running -= 1
        if instance.title in self.silent:
            raise UnavailableError("no answer")
        self.newest[instance.id] = self.timestamp
        self.made[instance.title] += 1
        self.at.append(self.timestamp)

    def nightly(self) -> Nightly:
        return Nightly(self, self.back_up, at_once=AT_ONCE)

    async def day(self) -> None:
        """A day of looks."""
        for _ in range(144):
            self.timestamp += timedelta(minutes=10)
            await self.nightly().run()


async def test_a_night_of_a_thousand() -> None:
    fleet = Fleet(1000)
    await fleet.day()
    assert set(fleet.made.values()) == {1}
    assert len(fleet.made) == 1000
    assert fleet.most <= AT_ONCE
    slots = Counter((at - MIDNIGHT) // timedelta(minutes=10) for at in fleet.at)
    assert max(slots.values()) <= 3 * 1000 / 144, "a peak"


async def test_one_that_does_not_answer_is_told_and_keeps_no_other_from_it() -> None:
    fleet = Fleet(30)
    fleet.silent = {"u3"}
    fleet.timestamp += timedelta(days=2)
    problems = await fleet.nightly().run()
    assert {title: why for title, why in problems.items() if why} == {"u3": "no answer"}
    assert len(fleet.made) == 29
    fleet.silent = set()
    assert await fleet.nightly().run() == {"u3": ""}


async def test_after_an_hour_without_the_object_store_those_that_would_lose_most_come_first() -> None:
    fleet = Fleet(3)
    for number, hours in ((0, 30), (1, 50), (2, 40)):
        fleet.newest[fleet.agents[number].id] = MIDNIGHT - timedelta(hours=hours)
    assert [instance.title for instance in fleet.nightly().due()] == ["u1", "u2", "u0"]


async def test_who_sleeps_is_not_woken_for_it() -> None:
    fleet = Fleet(3)
    fleet.agents[1] = replace(fleet.agents[1], status=InstanceStatus.SUSPENDED)
    fleet.timestamp += timedelta(days=2)
    assert {instance.title for instance in fleet.nightly().due()} == {"u0", "u2"}
