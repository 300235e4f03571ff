"""The timeline of one instance from the registry's rows, on both databases."""

from dataclasses import replace
from datetime import timedelta

from hermesops.agents.drift.history.changes import Happening
from hermesops.agents.drift.history.timeline import Monitored, instance_timeline
from hermesops.agents.health.samples.sample import HealthSample
from hermesops.model.access.certificate import Certificate
from hermesops.model.fleet.health import GatewayHealth
from hermesops.model.fleet.overview import MachineObservation
from hermesops.model.ids import MachineId
from hermesops.model.operation import OperationKind, OperationStatus
from hermesops.store.registry import Registry
from tests.support.real.stores.registries import TurnedClock, placed

DAY = timedelta(days=1)


def test_what_the_registry_recorded_of_one_instance_and_of_no_other(registry: Registry, clock: TurnedClock) -> None:
    ada, _ = placed(registry, "ada"), placed(registry, "bob")
    clock.turn(60)
    restart = registry.operations.open(OperationKind.RESTART, f"instance/{ada.id}", instance_id=ada.id)
    registry.operations.record_step(restart.id, "stop the gateway")
    registry.operations.finish(restart.id, OperationStatus.DONE, outcome="restarted")
    for boot in ("b1", "b2"):
        clock.turn(60)
        registry.observations.record([MachineObservation(MachineId("m"), ada.machine_name, "starter", "ready", boot)])
    sample = HealthSample(registry.now(), None, "r", GatewayHealth.OK, 0, None, None, None)
    later = replace(sample, at=sample.at + timedelta(seconds=30), restarts=2)
    registry.health_samples.add({ada.id: (sample.at, sample.to_json())})
    registry.health_samples.add({ada.id: (later.at, later.to_json())})
    registry.health_samples.add({ada.id: (later.at + timedelta(seconds=1), "nonsense")})
    happenings = instance_timeline(registry, ada, None)
    assert [happening.what for happening in happenings][-5:] == [
        "operation_opened",
        "operation_ended",
        "operation_step",
        "machine_reboot_seen",
        "gateway_restart_seen",
    ]
    assert {happening.subject for happening in happenings} == {f"instance/{ada.id}", f"machine/{ada.machine_name}"}
    recent = instance_timeline(registry, ada, registry.now())
    assert [happening.what for happening in recent] == ["machine_reboot_seen", "gateway_restart_seen"]


def test_counts_of_monitoring_stand_for_health_samples_of_their_time(registry: Registry) -> None:
    ada = placed(registry, "ada")
    sample = HealthSample(registry.now(), None, "r", GatewayHealth.OK, 0, None, None, None)
    for minute, restarts in enumerate((0, 1, 2, 3)):
        at = sample.at + timedelta(minutes=minute)
        registry.health_samples.add({ada.id: (at, replace(sample, at=at, restarts=restarts).to_json())})
    alert = Happening(sample.at + timedelta(seconds=90), "", "alert_fired", f"instance/{ada.id}", "GatewayDown")
    past = Monitored((alert,), counts_since=sample.at + timedelta(minutes=2))
    happenings = instance_timeline(registry, ada, None, past)
    assert [happening.what for happening in happenings][-2:] == ["gateway_restart_seen", "alert_fired"]


def test_revocations_of_certificates_and_tokens_stand_in_order(registry: Registry, clock: TurnedClock) -> None:
    machine = MachineId("m-1")
    ada = registry.instances.set_machine(placed(registry, "ada").id, machine)
    registry.certificates.add(Certificate("a1", "k" * 64, machine, None, None, clock.timestamp, clock.timestamp + DAY))
    clock.turn(60)
    begin = registry.now()
    registry.certificates.revoke(machine, why="stolen")
    clock.turn(60)
    registry.model_tokens.revoke(ada.id, why="leak")
    clock.turn(60)
    registry.audit.append("tokens_revoked", f"instance/{ada.id}", why="leak", after={"purposes": ["chat"]})
    lines = [(happening.what, happening.detail) for happening in instance_timeline(registry, ada, begin)]
    assert lines == [
        ("certificates_revoked", "certificates 1, stolen"),
        ("model_tokens_revoked", "generation 1 -> 2, leak"),
        ("tokens_revoked", "purposes chat, leak"),
    ]
