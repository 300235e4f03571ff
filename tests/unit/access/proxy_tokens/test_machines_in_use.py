"""Which machines need tokens: an agent's own, and those kept for one; never one that an agent has left."""

from hermesops.access.proxy_tokens.renewal import machines_in_use
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.fleet.unassigned_machine import MachineRole
from tests.support.fleets.in_memory import ordered, pooled


def test_machines_of_running_agents_and_all_that_are_wanted_are_in_use() -> None:
    awake, suspended = ordered(0).instance, ordered(1, status=InstanceStatus.SUSPENDED).instance
    homeless = ordered(2, machine_id=None).instance
    unassigned = [pooled(3), pooled(4, wanted=False), pooled(5, role=MachineRole.PREVIOUS), pooled(6, machine_id=None)]
    running, used = machines_in_use([awake, suspended, homeless], unassigned)
    assert running == [awake.machine_id]
    assert used == {awake.machine_id, suspended.machine_id, pooled(3).machine_id}
