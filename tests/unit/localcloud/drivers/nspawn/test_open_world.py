"""A world that is removed: each machine, whatever became of another one."""

import pytest

from hermesops.errors import UnavailableError
from hermesops.localcloud.drivers.nspawn.open_world import OpenWorld
from hermesops.model.ids import MachineId
from tests.support.fakes.parts import part


def test_a_machine_that_cannot_be_removed_leaves_no_other_running_and_keeps_the_worlds_files() -> None:
    deleted: list[str] = []

    def delete(machine_id: MachineId) -> None:
        if machine_id == "busy":
            raise UnavailableError("umount of busy failed with 32: target is busy")
        deleted.append(machine_id)

    # Every other part of a world is missing here, so that touching one ends the test.
    world = part(records=dict.fromkeys(map(MachineId, ("first", "busy", "last"))), delete=delete)
    world._removal_problem = lambda machine_id: OpenWorld._removal_problem(world, machine_id)

    with pytest.raises(UnavailableError, match="target is busy"):
        OpenWorld.remove(world)

    assert deleted == ["first", "last"]
