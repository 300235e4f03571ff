"""Relocations by a rollout of an image, in both databases: how it reads them, and how it ends one on its way."""

import asyncio
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest

from hermesops.agents.rollout.machines import relocation
from hermesops.agents.rollout.machines.relocation import RelocatedMachines, relocation_state, status_of
from hermesops.base.waiting import pause
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.ids import CellName, ImageId, InstanceId, MachineId, instance_subject
from hermesops.model.operation import Operation, OperationKind, OperationStatus
from hermesops.model.plan import Plan
from hermesops.model.rollout.records import ReleaseStatus, Target
from hermesops.store.operations.kinds.agents import RelocateIntent, RestartIntent
from hermesops.store.operations.leases.keeper import LeaseKeeper
from hermesops.store.registry import Registry
from hermesops.vendor.channel import Completed
from tests.support.real.stores.registries import placed


@pytest.fixture
def ada(registry: Registry) -> Instance:
    ada = placed(registry)
    registry.instances.set_status(ada.id, InstanceStatus.RUNNING)
    return registry.instances.set_machine(ada.id, MachineId("m1"))


def asked(registry: Registry, ada: Instance, image: str) -> Operation:
    intent = RelocateIntent(
        user="ada",
        reason="newer",
        origin=ada.machine_name,
        cell=ada.cell,
        region="hel1",
        plan=ada.plan,
        server_type="starter",
        image_id=ImageId(image),
    )
    subject = instance_subject(ada.id)
    return registry.operations.open(OperationKind.RELOCATE, subject, intent=intent.to_json(), instance_id=ada.id)


def standing(registry: Registry, ada: Instance) -> ReleaseStatus:
    return status_of(relocation_state(registry, ada.id))


def test_it_is_where_it_was(registry: Registry, ada: Instance) -> None:
    assert standing(registry, ada) == ReleaseStatus("", reverts=False)


def test_one_that_was_left_halfway_waits_for_who_goes_on_with_it(registry: Registry, ada: Instance) -> None:
    operation = asked(registry, ada, "new")
    registry.operations.record_step(operation.id, "waiting for machine m-2")
    state = relocation_state(registry, ada.id)
    assert (status_of(state).activation, status_of(state).phase) == ("new", "unconfirmed")
    assert status_of(state).step == "waiting for machine m-2"
    assert not state.is_cut_over


@pytest.mark.parametrize("status", [OperationStatus.FAILED, OperationStatus.ABANDONED])
def test_one_that_was_given_up_says_why(registry: Registry, ada: Instance, status: OperationStatus) -> None:
    operation = asked(registry, ada, "new")
    registry.operations.finish(operation.id, status, "no gateway")
    release_status = standing(registry, ada)
    assert (release_status.current, release_status.activation) == ("", "")
    assert (release_status.last, release_status.last_to, release_status.last_failed, release_status.why) == (
        f"{operation.id} {status}",
        "new",
        True,
        "no gateway",
    )


def test_one_with_another_unfinished_operation_is_busy_and_no_failure(registry: Registry, ada: Instance) -> None:
    intent = RestartIntent(user="ada", before="", reason="left").to_json()
    subject = instance_subject(ada.id)
    left = registry.operations.open(OperationKind.RESTART, subject, intent=intent, instance_id=ada.id)
    assert standing(registry, ada).busy == f"operation {left.id} (restart) has not ended"
    registry.operations.finish(left.id, OperationStatus.DONE, "done")
    assert standing(registry, ada).busy == ""


def test_whoever_sleeps_is_absent(registry: Registry, ada: Instance) -> None:
    registry.instances.set_status(ada.id, InstanceStatus.SUSPENDED)
    assert standing(registry, ada).absent == "suspended"


@dataclass
class Requests:
    """Opens operations for the instance; the fenced gateway of a machine that an agent never left is started again."""

    registry: Registry
    opened: list[str] = field(default_factory=list)

    async def resume(self, user: str, *, reason: str) -> Operation:
        self.opened.append(f"resume {user}: {reason}")
        subject = instance_subject(InstanceId(user))
        return self.registry.operations.open(OperationKind.RESUME, subject, intent={}, instance_id=InstanceId(user))


def machines_of(registry: Registry, requests: Requests) -> RelocatedMachines:
    async def run(operation: Operation) -> str:
        registry.operations.finish(operation.id, OperationStatus.DONE, "done")
        return "done"

    async def node(_command: str, *, timeout_s: float) -> object:
        assert timeout_s > 0
        return Completed(0, b'{"fenced": true}', b"")

    client = SimpleNamespace(channel=lambda _machine: SimpleNamespace(run=node, machine_id=MachineId("m1")))
    parts = {"pools": None, "drills": None}
    return RelocatedMachines(registry, client, requests=requests, run=run, purpose="rollout r1", **parts)  # type: ignore[arg-type]


def target_of(ada: Instance) -> Target:
    return Target(ada.id, "ada", Plan.LIGHT, CellName(ada.cell), "hel1", "")


async def test_one_that_stopped_on_its_way_is_given_up_and_its_agent_started_again(
    registry: Registry, ada: Instance
) -> None:
    operation, requests = asked(registry, ada, "new"), Requests(registry)
    await machines_of(registry, requests).roll_back(target_of(ada), lose=False)
    assert registry.operations.get(operation.id).status is OperationStatus.ABANDONED
    assert requests.opened == [f"resume {ada.id}: rollout r1 is rolled back"]


async def test_one_that_a_worker_has_taken_over_is_waited_for(
    registry: Registry, ada: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relocation, "_AGAIN_S", 0.02)
    operation, requests = asked(registry, ada, "new"), Requests(registry)
    async with LeaseKeeper(registry, operation.subject) as worker:
        rolling_back = asyncio.ensure_future(machines_of(registry, requests).roll_back(target_of(ada), lose=False))
        await pause(0.1)
        assert not rolling_back.done(), "it is neither an error nor over"
        registry.operations.finish(operation.id, OperationStatus.FAILED, "no gateway", lease=worker.lease)
    await asyncio.wait_for(rolling_back, 10)
    assert registry.operations.get(operation.id).outcome == "no gateway"
    assert len(requests.opened) == 1


async def test_the_way_back_that_was_begun_is_finished_and_not_begun_anew(registry: Registry, ada: Instance) -> None:
    back, requests = asked(registry, ada, "old"), Requests(registry)
    target = replace(target_of(ada), release_before="old")
    await machines_of(registry, requests).roll_back(target, lose=False)
    assert registry.operations.get(back.id).status is OperationStatus.DONE
    assert requests.opened == []
