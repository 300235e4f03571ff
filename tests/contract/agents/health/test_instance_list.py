"""The list of instances, whole and by parts, on both databases."""

from hermesops.agents.health.instance_list import InstanceList
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.rollout.release import ReleaseId
from hermesops.store.registry import Registry
from tests.support.fleets.filled_registry import beat, fill

COUNT = 90
"""In three cells."""


def test_a_part_is_that_of_the_whole_list(registry: Registry) -> None:
    fill(registry, COUNT)
    beat(registry, silent_every=10)
    listing, rows = InstanceList(registry), registry.instances.list()
    registry.instances.set_status(rows[7].id, InstanceStatus.SUSPENDED)
    registry.terminations.terminate(rows[3].id)
    registry.rollout_targets.record_releases({rows[5].id: ReleaseId("r1"), rows[50].id: ReleaseId("r1")})
    for where in (
        "",
        "cell=cell2",
        "health=down",
        "release=r1",
        "status=suspended",
        "user=user9,user=user41",
        "plan=heavy",
    ):
        selector = listing.selector(where)
        whole = listing.read(selector)
        for begin in (0, 30, 60, 90):
            part = listing.part(selector, begin, 30)
            assert part.rows == whole[begin : begin + 30], (where, begin)
            assert part.ids == tuple(row.instance.id for row in whole), where
    assert len(listing.read()) == COUNT - 1
