"""The list of instances: health, release and region, by what is recorded."""

from datetime import timedelta
from pathlib import Path

import pytest

from hermesops.agents.health.instance_list import InstanceList, ListedInstance
from hermesops.errors import UsageError
from hermesops.model.fleet.health import Condition, GatewayHealth
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.plan import Plan
from hermesops.model.rollout.release import RecordedRelease, ReleaseId
from hermesops.store.registry import Registry
from tests.support.real.stores.registries import TurnedClock, placed, registry_at

RELEASE = ReleaseId("0.19.0-abc")


@pytest.fixture
def clock() -> TurnedClock:
    return TurnedClock()


@pytest.fixture
def registry(tmp_path: Path, clock: TurnedClock) -> Registry:
    """Ada runs and is heard, ben runs and is not, cleo is suspended; ada's release is known."""
    registry = registry_at(f"sqlite:///{tmp_path}/registry.db", clock=clock)
    for user, plan, status in (
        ("ada", Plan.LIGHT, InstanceStatus.RUNNING),
        ("ben", Plan.HEAVY, InstanceStatus.RUNNING),
        ("cleo", Plan.LIGHT, InstanceStatus.SUSPENDED),
    ):
        registry.instances.set_status(placed(registry, user, plan).id, status)
        clock.turn(1)
    ada = registry.instances.find("ada")
    registry.rollout_targets.record_release(ada.id, RELEASE)
    registry.fleet.record_heartbeats({ada.id: clock.timestamp})
    registry.fleet.record_reported({ada.id: GatewayHealth.OK})
    return registry


def users(registry: Registry, where: str) -> list[str]:
    instances = InstanceList(registry)
    return [row.instance.title for row in instances.read(instances.selector(where))]


def test_each_row_says_what_is_known_and_no_more(registry: Registry, clock: TurnedClock) -> None:
    ada, ben, cleo = InstanceList(registry).read()
    assert [InstanceList(registry).of(row.instance) for row in (ada, ben, cleo)] == [ada, ben, cleo]
    assert ada.region == ben.region == registry.cells.list()[0].region
    assert ada.release == RecordedRelease(RELEASE, clock.timestamp)
    assert (ben.release, cleo.release) == (None, None)
    assert cleo.health is None
    assert [condition(row) for row in (ada, ben)] == [Condition.HEALTHY, Condition.UNKNOWN]


def test_what_is_old_is_unknown(registry: Registry, clock: TurnedClock) -> None:
    clock.turn(timedelta(hours=1).total_seconds())
    assert Condition.HEALTHY not in {condition(row) for row in InstanceList(registry).read()}


def condition(row: ListedInstance) -> Condition | None:
    return row.health.condition if row.health else None


def test_a_selector_takes_any_column(registry: Registry) -> None:
    for where, expected in (
        ("", ["ada", "ben", "cleo"]),
        ("health=healthy", ["ada"]),
        ("health=unknown", ["ben"]),
        ("release=unknown", ["ben", "cleo"]),
        (f"release={RELEASE}", ["ada"]),
        ("plan=light,status=suspended", ["cleo"]),
        ("user=ada,user=ben", ["ada", "ben"]),
        ("region=nowhere", []),
    ):
        assert users(registry, where) == expected, where


def test_a_selector_names_only_what_there_is(registry: Registry) -> None:
    for where in ("color=red", "user=nobody", "cell=cell9"):
        with pytest.raises(UsageError, match=r"color|nobody|cell9"):
            users(registry, where)


def test_terminated_ones_are_listed_when_asked_for(registry: Registry) -> None:
    registry.terminations.terminate(registry.instances.find("cleo").id)
    assert users(registry, "") == ["ada", "ben"]
    everybody = InstanceList(registry).read(terminated=True)
    assert [condition(row) for row in everybody if row.instance.title == "cleo"] == [None]


def test_running_agents_are_counted_by_release(registry: Registry) -> None:
    registry.rollout_targets.record_release(registry.instances.find("cleo").id, RELEASE)  # suspended: it runs nothing
    assert InstanceList(registry).agents_by_release() == {RELEASE: ("ada",), "unknown": ("ben",)}
