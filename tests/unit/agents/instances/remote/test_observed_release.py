"""An operation that observes an instance's own machine records the release that runs there."""

from dataclasses import dataclass, replace
from typing import Any

from hermesops.agents.instances.observation import Observation
from hermesops.agents.instances.remote.instance_client import InstanceClient
from hermesops.model.fleet.health import NodeState
from hermesops.model.fleet.instance import Instance
from hermesops.model.ids import InstanceId
from tests.support.fakes.instances import ADA
from tests.support.fakes.parts import part

OWN = NodeState(ADA.id, 1, "digest", "0.19.0-abc")
LEASE: Any = part(subject=f"instance/{ADA.id}")


@dataclass(frozen=True, kw_only=True)
class Client(InstanceClient):
    """A client whose machine reports one state."""

    reported: NodeState

    async def observe_as(self, instance: Instance) -> Observation:
        return Observation(instance, None, self.reported)


async def recorded(node: NodeState, lease: Any = LEASE) -> list[str]:  # noqa: ANN401 - stands for a lease
    releases: list[str] = []

    def record(instance_id: InstanceId, release: str, *, lease: object) -> None:
        assert (instance_id, lease) == (ADA.id, LEASE)
        releases.append(release)

    registry = part(instances=part(get=lambda _: ADA), rollout_targets=part(record_release=record))
    client = Client(
        registry=registry,
        vendor=part(),
        keys=part(),
        agents=part(),
        router_url="",
        gateway_timeout_s=1,
        report=lambda _: None,
        lease=lease,
        reported=node,
    )
    observation = await client.observe(ADA.id)
    assert observation.node == node
    return releases


async def test_the_release_of_its_own_machine_is_recorded() -> None:
    assert await recorded(OWN) == ["0.19.0-abc"]


async def test_whoever_only_looks_records_nothing() -> None:
    assert await recorded(OWN, lease=None) == []


async def test_a_release_that_the_machine_may_leave_by_itself_is_not_recorded() -> None:
    assert await recorded(replace(OWN, switching=True)) == []


async def test_neither_is_that_of_another_instances_machine_nor_none() -> None:
    assert await recorded(replace(OWN, instance_id=InstanceId("another"))) == []
    assert await recorded(replace(OWN, release="")) == []
