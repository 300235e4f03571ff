"""Who is low on disk, by the newest backups, alike on SQLite and PostgreSQL."""

from datetime import UTC, datetime, timedelta

from hermesops.cli.views.fleet import notices
from hermesops.model.fleet.overview import LowOnDisk
from hermesops.model.ids import InstanceId
from hermesops.model.plan import Plan
from hermesops.model.recovery.backup import Backup
from hermesops.model.recovery.state import State
from hermesops.store.registry import Registry
from hermesops.views.agents import fleet as fleet_shapes
from hermesops.wire.protocol import GB
from tests.support.real.stores.registries import placed

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SIZES = {Plan.LIGHT: 40 * GB, Plan.HEAVY: 80 * GB}


def back_up(registry: Registry, instance_id: InstanceId, *sizes_gb: int) -> None:
    for hour, size in enumerate(sizes_gb):
        at = NOON + timedelta(hours=hour)
        registry.backups.record(Backup(f"{instance_id}-{hour}", instance_id, at, "daily", size * GB, 0, State({})))


def test_who_is_near_the_end_of_the_plans_room_is_named_the_fullest_first(registry: Registry) -> None:
    ada, bea, cid, dan = (placed(registry, name) for name in ("ada", "bea", "cid", "dan"))
    back_up(registry, ada.id, 10, 32)
    back_up(registry, bea.id, 39, 31)  # it was, and is no more
    back_up(registry, cid.id, 1, 38)
    back_up(registry, dan.id, 40)
    registry.terminations.terminate(dan.id)
    agents = registry.backups.list_low_on_disk(SIZES)
    assert agents == (LowOnDisk("cid", Plan.LIGHT, 38 * GB, 40 * GB), LowOnDisk("ada", Plan.LIGHT, 32 * GB, 40 * GB))
    assert registry.backups.list_low_on_disk({}) == ()
    assert fleet_shapes.crowded(agents)[0] == {"user": "cid", "plan": "light", "bytes": 38 * GB, "size": 40 * GB}
    assert "cid has 38.0 of 40 GB" in notices.crowded_lines(agents)[0]


def test_people_are_told_of_the_first_and_how_many_more_there_are() -> None:
    many = [LowOnDisk(f"user-{n}", Plan.LIGHT, 39 * GB, 40 * GB) for n in range(13)]
    assert notices.crowded_lines(many)[-1] == "data: 3 more agents low on disk"
    assert len(notices.crowded_lines(many)) == 11
    assert notices.crowded_lines([]) == []
