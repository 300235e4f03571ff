"""Health as a rollout's runner gets it: by whose clock, and which figures."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

from hermesops.agents.rollout.watch.health import RolloutHealth
from hermesops.model.fleet.instance import Instance
from hermesops.model.fleet.vitals import ChangeSpan, Vital
from hermesops.model.ids import InstanceId
from hermesops.model.messaging.exchange import Exchange
from hermesops.vendor.channel import Completed
from tests.support.fakes.instances import ADA
from tests.support.fakes.machines.probes import WELL
from tests.support.fakes.registry import FakeRegistry

NOW = datetime(2030, 1, 1, tzinfo=UTC)


class Rows(FakeRegistry):
    """The registry, as far as health needs it."""

    def __init__(self) -> None:
        self.kept: list[tuple[datetime, str]] = []
        self.asked: list[Mapping[InstanceId, datetime]] = []

    def instances_get(self, instance_id: InstanceId) -> Instance:
        assert instance_id == ADA.id
        return ADA

    def health_samples_add(self, read: Mapping[InstanceId, tuple[datetime, str]]) -> None:
        self.kept += read.values()

    def health_samples_list(
        self, instances: Collection[InstanceId], *, since: datetime
    ) -> dict[InstanceId, tuple[str, ...]]:
        return {each: tuple(text for at, text in self.kept if at >= since) for each in instances}

    def messages_exchanges(
        self, since: Mapping[InstanceId, datetime], *, timeout: timedelta
    ) -> Mapping[InstanceId, Exchange]:
        assert timeout == timedelta(minutes=3)
        self.asked.append(since)
        return dict.fromkeys(since, Exchange(1, 1))


class Node:
    """A machine whose agent is well, whatever its own clock says."""

    async def run(self, command: str, *, timeout_s: float) -> Completed:
        assert " probe" in command
        assert timeout_s > 0
        return WELL


async def test_before_and_after_are_told_by_the_clock_that_says_when_it_was_changed() -> None:
    rows, timestamps = Rows(), [NOW]
    client = SimpleNamespace(channel=lambda _machine_id: Node())
    watching = RolloutHealth(rows, client, None, lambda: timestamps[-1])  # type: ignore[arg-type]
    await watching.watch({}, [ADA.id], [Vital.MEMORY])
    timestamps.append(NOW + timedelta(minutes=2))
    changed = NOW + timedelta(minutes=1)
    watched = await watching.watch({ADA.id: ChangeSpan(changed, changed)}, [], [Vital.MEMORY])
    assert [at for at, _ in rows.kept] == timestamps
    assert [(comparison.vital, comparison.canaries) for comparison in watched.comparisons] == [
        (Vital.MEMORY, {ADA.id: (1.0, 1.0)})
    ]
    assert watched.liveness_of[ADA.id].answers
    assert watched.messages is not None
    assert watched.messages.canaries == {ADA.id: Exchange(1, 1)}


async def test_messages_count_since_each_change_and_for_the_untouched_since_the_first() -> None:
    rows = Rows()
    client = SimpleNamespace(channel=lambda _machine_id: Node())
    watching = RolloutHealth(rows, client, None, lambda: NOW)  # type: ignore[arg-type]
    assert (await watching.watch({}, [ADA.id], ())).messages is None, "nobody was changed"
    began, ended, bob = NOW - timedelta(minutes=9), NOW - timedelta(minutes=8), InstanceId("bob")
    later = NOW - timedelta(minutes=1)
    rows.asked.clear()
    watching._messages({ADA.id: ChangeSpan(began, ended), bob: ChangeSpan(began, later)}, [InstanceId("cy")])
    assert rows.asked == [{ADA.id: ended, bob: later}, {InstanceId("cy"): ended}]
