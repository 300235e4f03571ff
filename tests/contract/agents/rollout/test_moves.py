"""What a rollout reads of an instance that is brought to another machine, in both databases."""

import pytest

from hermesops.agents.rollout.machines.relocation import relocation_state, status_of
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.ids import ImageId, instance_subject
from hermesops.model.operation import Operation, OperationKind, OperationStatus
from hermesops.model.rollout.records import ReleaseStatus
from hermesops.store.operations.kinds import RelocateIntent, RestartIntent
from hermesops.store.registry import Registry
from tests.support.real.stores.registries import placed


@pytest.fixture
def ada(registry: Registry) -> Instance:
    ada = placed(registry)
    registry.instances.set_status(ada.id, InstanceStatus.RUNNING)
    return ada


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
    assert standing(registry, ada) == ReleaseStatus("")


def test_one_that_was_left_halfway_waits_for_who_goes_on_with_it(registry: Registry, ada: Instance) -> None:
    asked(registry, ada, "new")
    found = relocation_state(registry, ada.id)
    assert (status_of(found).activation, status_of(found).phase) == ("new", "unconfirmed")
    assert not found.is_cut_over


@pytest.mark.parametrize("status", [OperationStatus.FAILED, OperationStatus.ABANDONED])
def test_one_that_was_given_up_says_why(registry: Registry, ada: Instance, status: OperationStatus) -> None:
    operation = asked(registry, ada, "new")
    registry.operations.finish(operation.id, status, "no gateway")
    seen = standing(registry, ada)
    assert (seen.current, seen.activation) == ("", "")
    assert (seen.last, seen.last_to, seen.last_failed, seen.why) == (
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
