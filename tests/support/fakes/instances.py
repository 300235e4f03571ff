"""One user's instance, running on its machine, for tests that need no more than one."""

from datetime import UTC, datetime

from hermesops.agents.instances.observation import MachineState
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.ids import CellName, InstanceId, MachineId, MachineName, UserId
from hermesops.model.plan import Plan
from hermesops.vendor.justavps.wire import MachineStatus

MACHINE = MachineId("aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee")
ADA = Instance(
    id=InstanceId("11111111-2222-3333-4444-555555555555"),
    user_id=UserId("99999999-2222-3333-4444-555555555555"),
    user_alias="ada",
    plan=Plan.LIGHT,
    status=InstanceStatus.RUNNING,
    cell=CellName("cell1"),
    machine_name=MachineName("hermes-local-cell1-111111112222"),
    machine_id=MACHINE,
    epoch=1,
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
)
READY = MachineState(MACHINE, MachineStatus.READY)
"""Its machine."""
