"""What the monitor tells of provisions and of billing, from the registry of both databases."""

from hermesops.automation.monitor.metrics.exposition import series
from hermesops.automation.monitor.metrics.figures import FleetFigures
from hermesops.automation.monitor.service import REASON
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.ids import OperationId, instance_subject
from hermesops.model.operation import OperationKind, OperationStatus
from hermesops.store.registry import Registry
from tests.support.real.stores.registries import TurnedClock, placed

OLDEST = series("hermesops_provision_oldest_seconds")
TOOK = "hermesops_provision_seconds"
BILLING = "hermesops_billing_oldest_seconds"


def oldest_s(registry: Registry) -> float:
    return FleetFigures(registry).read(registry.fleet.expected(reason=REASON)).series[OLDEST]


def test_the_oldest_provision_is_told_until_it_ends(registry: Registry, clock: TurnedClock) -> None:
    assert oldest_s(registry) == 0
    ada = placed(registry, "ada")
    clock.turn(60)
    subject = instance_subject(ada.id)
    opened = registry.operations.open(OperationKind.PROVISION, subject, intent={}, instance_id=ada.id)
    bob = placed(registry, "bob")
    clock.turn(30)
    assert oldest_s(registry) == 90, "ada waits since she was placed"
    registry.operations.finish(opened.id, OperationStatus.FAILED, "refused")
    assert oldest_s(registry) == 90, "without an operation she waits all the same"
    registry.instances.set_status(ada.id, InstanceStatus.RUNNING)
    assert oldest_s(registry) == 30, "bob is next"
    registry.instances.set_status(bob.id, InstanceStatus.RUNNING)
    assert oldest_s(registry) == 0


def test_a_provision_that_continues_counts_from_its_begin(registry: Registry, clock: TurnedClock) -> None:
    ada = placed(registry, "ada")
    registry.instances.set_status(ada.id, InstanceStatus.RUNNING)
    clock.turn(60)
    opened = registry.operations.open(OperationKind.PROVISION, instance_subject(ada.id), intent={}, instance_id=ada.id)
    clock.turn(45)
    assert oldest_s(registry) == 45
    registry.operations.finish(opened.id, OperationStatus.DONE, "ada has an agent")
    assert oldest_s(registry) == 0


def test_a_user_waits_since_the_first_request(registry: Registry, clock: TurnedClock) -> None:
    """A refused order ends its operation; the one that succeeds then takes seconds."""
    ada, bob = placed(registry, "ada"), placed(registry, "bob")

    def asked(instance: Instance, took_s: float, status: OperationStatus) -> OperationId:
        operation = registry.operations.open(
            OperationKind.PROVISION, instance_subject(instance.id), intent={}, instance_id=instance.id
        )
        clock.turn(took_s)
        registry.operations.finish(operation.id, status, "…")
        return operation.id

    asked(ada, 4, OperationStatus.FAILED)
    of_bob = asked(bob, 30, OperationStatus.DONE)
    asked(ada, 4, OperationStatus.ABANDONED)
    clock.turn(300)
    of_ada = asked(ada, 5, OperationStatus.DONE)
    again = asked(ada, 2, OperationStatus.DONE)
    figures = FleetFigures(registry).read(registry.fleet.expected(reason=REASON)).series
    seconds_by_operation = {
        dict(labels)["operation"]: value for (name, labels), value in figures.items() if name == TOOK
    }
    assert seconds_by_operation == {of_bob: 30, of_ada: 4 + 30 + 4 + 300 + 5, again: 2}


def test_events_of_billing_are_told_with_the_age_of_the_oldest(registry: Registry, clock: TurnedClock) -> None:
    def told() -> dict[str, float]:
        series = FleetFigures(registry).read(registry.fleet.expected(reason=REASON)).series
        return {dict(labels)["state"]: value for (name, labels), value in series.items() if name == BILLING}

    assert told() == {"queued": 0, "waiting": 0, "set_aside": 0}
    registry.billing.receive(b"{}", "")
    clock.turn(30)
    registry.billing.receive(b"{}", "")
    clock.turn(15)
    assert told() == {"queued": 45, "waiting": 0, "set_aside": 0}
