"""What the monitor reads of the registry, and the heartbeats that it writes, on both databases."""

from datetime import timedelta

from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.fleet.overview import MachineObservation, RepairKind
from hermesops.model.ids import InstanceId, MachineId, instance_subject
from hermesops.model.operation import Operation, OperationKind, OperationStatus
from hermesops.store.operations.kinds.agents import RebootIntent, RelocateIntent
from hermesops.store.registry import Registry
from tests.support.real.stores.registries import TurnedClock, placed

REASON = "monitor: "


def running(registry: Registry, user: str) -> Instance:
    instance = placed(registry, user)
    registry.instances.set_machine(instance.id, MachineId(f"m-{user}"))
    registry.instances.set_status(instance.id, InstanceStatus.RUNNING)
    return registry.instances.get(instance.id)


def opened(registry: Registry, instance: Instance, *, reason: str = f"{REASON}silent") -> Operation:
    intent = RebootIntent(user=instance.title, reason=reason).to_json()
    subject = instance_subject(instance.id)
    return registry.operations.open(OperationKind.REBOOT, subject, intent=intent, instance_id=instance.id)


def busy(registry: Registry) -> dict[str, str]:
    return {expected.user: expected.busy for expected in registry.fleet.expected(reason=REASON).instances}


def test_heartbeats_are_recorded_at_once_and_never_go_back(registry: Registry) -> None:
    ada, bob = running(registry, "ada"), running(registry, "bob")
    now = registry.now()
    assert registry.fleet.record_heartbeats({}) == 0
    assert registry.fleet.record_heartbeats({ada.id: now, bob.id: now, InstanceId("0" * 32): now}) == 2
    older, newer = now - timedelta(seconds=30), now + timedelta(seconds=30)
    assert registry.fleet.record_heartbeats({ada.id: older, bob.id: newer}) == 1
    assert registry.instances.get(ada.id).last_heartbeat == now
    assert registry.instances.get(bob.id).last_heartbeat == newer


def test_only_instances_that_should_run_are_expected(registry: Registry) -> None:
    placed(registry, "new")
    users = {user: running(registry, user) for user in ("ada", "asleep", "leaving", "ending")}
    registry.instances.set_status(users["asleep"].id, InstanceStatus.SUSPENDED)
    registry.instances.leave_machine(users["leaving"].id)
    registry.instances.begin_grace(users["ending"].id, registry.now())
    expected_fleet = registry.fleet.expected(reason=REASON)
    assert [
        (expected.user, expected.machine_status, expected.last_heartbeat, expected.busy)
        for expected in expected_fleet.instances
    ] == [("ada", "", None, "")]
    assert (expected_fleet.listed_at, expected_fleet.repairs, expected_fleet.left, expected_fleet.now) == (
        None,
        (),
        (),
        registry.now(),
    )


def test_what_somebody_works_on_is_busy(registry: Registry) -> None:
    ada, bob, cleo = (running(registry, user) for user in ("ada", "bob", "cleo"))
    row = opened(registry, ada)
    lease = registry.leases.take(instance_subject(bob.id), "host:1:00000000.1.ab")
    assert busy(registry) == {
        "ada": f"operation {row.id} (reboot) has not ended",
        "bob": "somebody works on it",
        "cleo": "",
    }
    registry.leases.release(lease)
    registry.operations.finish(row.id, OperationStatus.DONE, "well")
    assert set(busy(registry).values()) == {""}
    assert cleo.id in {expected.id for expected in registry.fleet.expected(reason=REASON).instances}


def test_repairs_of_a_day_are_told_whoever_asked_for_them(registry: Registry, clock: TurnedClock) -> None:
    ada, bob = running(registry, "ada"), running(registry, "bob")
    first = opened(registry, ada, reason="by hand")
    clock.turn(60)
    registry.operations.finish(first.id, OperationStatus.FAILED, "no answer")
    began = registry.now()
    second = opened(registry, ada)
    relocate = RelocateIntent(
        user="bob",
        reason=f"{REASON}gone",
        origin=bob.machine_name,
        cell=bob.cell,
        region="hel1",
        plan=bob.plan,
        server_type="starter",
    )
    moved = registry.operations.open(
        OperationKind.RELOCATE, instance_subject(bob.id), intent=relocate.to_json(), instance_id=bob.id
    )
    assert {repair.kind for repair in registry.fleet.expected(reason=REASON).repairs} == {RepairKind.REBOOT}, (
        "a mere move"
    )
    registry.operations.finish(moved.id, OperationStatus.ABANDONED, "no")
    restored = registry.operations.open(
        OperationKind.RELOCATE,
        instance_subject(bob.id),
        intent=relocate.to_json() | {"snapshot": "s"},
        instance_id=bob.id,
    )
    expected_fleet = registry.fleet.expected(reason=REASON)
    repairs = {
        (repair.instance_id, repair.kind, repair.began_at, repair.ended_at, repair.has_failed)
        for repair in expected_fleet.repairs
    }
    assert repairs == {
        (ada.id, RepairKind.REBOOT, began - timedelta(seconds=60), began, True),
        (ada.id, RepairKind.REBOOT, began, None, False),
        (bob.id, RepairKind.REPLACE, began, None, False),
    }
    assert set(expected_fleet.left) == {second.id, restored.id}
    lease = registry.leases.take(instance_subject(ada.id), "host:1:00000000.1.ab")
    assert registry.fleet.expected(reason=REASON).left == (restored.id,)
    assert registry.fleet.expected(reason="another").left == ()
    registry.leases.release(lease)
    clock.turn(86_401)
    later = registry.fleet.expected(reason=REASON)
    assert {repair.began_at for repair in later.repairs} == {began}, "what has not ended counts for as long"


def test_a_machine_is_gone_since_it_was_first_not_listed(registry: Registry, clock: TurnedClock) -> None:
    ada = running(registry, "ada")
    observation = MachineObservation(MachineId("m-ada"), ada.machine_name, "starter", "ready")
    missing = {MachineId("m-ada"): ada.machine_name}
    registry.observations.record([], missing=missing)
    clock.turn(60)
    registry.observations.record([observation])
    assert [
        (expected.machine_status, expected.gone_at) for expected in registry.fleet.expected(reason="").instances
    ] == [("ready", None)]
    clock.turn(60)
    since = registry.now()
    registry.observations.record([], missing=missing)
    clock.turn(60)
    registry.observations.record([], missing=missing)
    expected_fleet = registry.fleet.expected(reason="")
    assert [(expected.machine_status, expected.gone_at) for expected in expected_fleet.instances] == [("gone", since)]
    assert expected_fleet.listed_at == registry.now()
