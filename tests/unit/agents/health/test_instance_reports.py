"""One instance as vendor, machine, registry and monitoring know it."""

from pathlib import Path

from hermesops.agents.health.instance_reports import InstanceReports
from hermesops.agents.instances.observation import Observation
from hermesops.agents.instances.suspension import Suspension
from hermesops.model.health import Condition
from hermesops.model.ids import InstanceId
from hermesops.model.instance import InstanceStatus
from hermesops.model.operation import OperationKind, OperationStatus
from tests.support.fakes.parts import part
from tests.support.real.registries import TurnedClock, placed, registry_at


async def test_health_suspension_and_trends_stand_beside_what_was_observed(tmp_path: Path) -> None:
    clock = TurnedClock()
    registry = registry_at(f"sqlite:///{tmp_path}/registry.db", clock=clock)
    ada = registry.instances.set_status(placed(registry, "ada").id, InstanceStatus.RUNNING)
    suspended = registry.operations.open(
        OperationKind.SUSPEND, f"instance/{ada.id}", instance_id=ada.id, intent={"reason": "left us"}
    )
    registry.operations.finish(suspended.id, OperationStatus.DONE, outcome="suspended")

    async def observe(instance_id: InstanceId) -> Observation:
        assert instance_id == ada.id
        return Observation(ada, None)

    report = await InstanceReports(registry, part(observe=observe), lambda: None).of(ada)
    assert report.observation.instance == ada
    assert report.health is not None
    assert report.health.condition is Condition.DOWN
    assert report.suspension == Suspension(clock.timestamp, "left us")
    assert report.trends.problem == "there is no monitoring here"
