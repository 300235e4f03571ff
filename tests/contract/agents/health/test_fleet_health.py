"""The health of instances as the registry has recorded it, on both databases."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermesops.agents.health.fleet import fleet_health, observed_health, recorded_health, selected
from hermesops.agents.health.samples.sample import HealthSample
from hermesops.agents.instances.observation import MachineState, Observation
from hermesops.model.fleet.health import Condition, GatewayHealth, NodeState
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.fleet.overview import MachineObservation
from hermesops.model.ids import InstanceId, MachineId
from hermesops.model.operation import MONITOR_SUBJECT
from hermesops.store.registry import Registry
from hermesops.store.registry.schema import tables
from hermesops.vendor.justavps.wire import MachineStatus
from tests.support.real.stores.registries import TurnedClock, placed


def running(registry: Registry, user: str) -> Instance:
    """A user's instance that should run, on a machine of its own."""
    instance = placed(registry, user)
    registry.instances.set_machine(instance.id, MachineId(f"m-{user}"))
    registry.instances.set_status(instance.id, InstanceStatus.RUNNING)
    return registry.instances.get(instance.id)


def answered(registry: Registry, instance: Instance, gateway: GatewayHealth = GatewayHealth.OK) -> None:
    """Record an answer of now."""
    now = registry.now()
    sample = HealthSample(now, None, "r", gateway, 0, None, None, None)
    registry.health_samples.add({instance.id: (now, sample.to_json())})


def beat(registry: Registry, instance: Instance) -> None:
    """Record a heartbeat of now, as the monitor does."""
    registry.fleet.record_heartbeats({instance.id: registry.now()})


def watched(registry: Registry) -> None:
    """A monitor is there now, and reads heartbeats."""
    registry.leases.take(MONITOR_SUBJECT, "monitor", over="monitor")


def conditions(registry: Registry) -> dict[InstanceId, str]:
    """Conditions of all instances that should run, which are also those of each by itself."""
    judgements = fleet_health(registry).judgements
    by_themselves = {
        instance.id: judgement
        for instance in registry.instances.list(terminated=True)
        if (judgement := recorded_health(registry, instance))
    }
    assert by_themselves == judgements
    return {instance_id: judgement.condition.value for instance_id, judgement in judgements.items()}


def test_instances_that_should_run_are_judged_by_what_is_recorded(registry: Registry, clock: TurnedClock) -> None:
    ada, bob, cleo = (running(registry, user) for user in ("ada", "bob", "cleo"))
    placed(registry, "dan")
    assert conditions(registry) == dict.fromkeys((ada.id, bob.id, cleo.id), "unknown")
    listed = {"ada": "ready", "bob": "stopped", "cleo": "ready"}
    registry.observations.record(
        [MachineObservation(MachineId(f"m-{user}"), user, "starter", status) for user, status in listed.items()]
    )
    answered(registry, ada)
    assert conditions(registry) == {ada.id: "healthy", bob.id: "down", cleo.id: "unknown"}
    health = fleet_health(registry)
    assert [judged.instance.user for judged in selected(health, set(Condition))] == ["bob", "cleo", "ada"]
    assert [judged.instance.user for judged in selected(health, {Condition.HEALTHY})] == ["ada"]
    beat(registry, cleo)
    clock.turn(60)
    assert conditions(registry)[ada.id] == "healthy"
    clock.turn(31)
    assert conditions(registry) == {ada.id: "unknown", bob.id: "down", cleo.id: "unknown"}, "nobody listened"
    watched(registry)
    assert conditions(registry) == {ada.id: "unknown", bob.id: "down", cleo.id: "silent"}
    clock.turn(600)
    assert conditions(registry)[bob.id] == "unknown", "what was listed ten minutes ago was taken for now"


def test_what_a_machine_says_of_its_gateway_counts_as_long_as_its_heartbeat(
    registry: Registry, clock: TurnedClock
) -> None:
    ada = running(registry, "ada")
    registry.fleet.record_reported({ada.id: GatewayHealth.OK})
    assert conditions(registry) == {ada.id: "unknown"}, "no heartbeat came with it"
    beat(registry, ada)
    assert conditions(registry) == {ada.id: "healthy"}
    registry.fleet.record_reported({ada.id: GatewayHealth.SILENT})
    assert conditions(registry) == {ada.id: "down"}
    assert registry.fleet.expected(reason="-").instances[0].reported_gateway is GatewayHealth.SILENT
    registry.fleet.record_reported({ada.id: None})
    assert conditions(registry) == {ada.id: "unknown"}
    registry.fleet.record_reported({ada.id: GatewayHealth.OK})
    clock.turn(91)
    watched(registry)
    assert conditions(registry) == {ada.id: "silent"}


USERS = ("ada", "bob", "cleo", "dan")

RECORDED = st.fixed_dictionaries(
    {
        "beat_s": st.none() | st.floats(-120, 1000) | st.sampled_from([0.0, 89.999999, 90.0, 90.000001, 90.999999]),
        "gateway": st.none() | st.sampled_from([*GatewayHealth, "later"]),
        "machine": st.none() | st.sampled_from(["ready", "stopped", "gone"]),
        "sample": st.none() | st.tuples(st.floats(-10, 100), st.sampled_from(list(GatewayHealth))),
        "status": st.sampled_from([InstanceStatus.RUNNING, InstanceStatus.RUNNING, InstanceStatus.SUSPENDED]),
    }
)


@pytest.mark.turns(10)
@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.tuples(*[RECORDED] * len(USERS)), st.booleans(), st.none() | st.floats(0, 700), st.floats(0, 1))
def test_a_look_at_all_judges_each_as_a_look_at_one(
    registry: Registry,
    clock: TurnedClock,
    rows: tuple[dict[str, Any], ...],
    is_watched: bool,  # noqa: FBT001 - of hypothesis
    listed_s: float | None,
    fraction_s: float,
) -> None:
    clock.turn(1000 + fraction_s)
    if is_watched:
        watched(registry)
    for user, row in zip(USERS, rows, strict=True):
        record(registry, placed(registry, user), row)
    if listed_s is not None:
        machines = [
            MachineObservation(MachineId(f"m-{user}"), user, "starter", row["machine"])
            for user, row in zip(USERS, rows, strict=True)
            if row["machine"]
        ]
        clock.turn(-listed_s)
        registry.observations.record(machines)
        clock.turn(listed_s)
    judged = conditions(registry)
    running_rows = [row for row in rows if row["status"] is InstanceStatus.RUNNING]
    assert len(judged) == len(running_rows)


def record(registry: Registry, instance: Instance, row: dict[str, Any]) -> None:
    """Write what is recorded of an instance, whatever was recorded before."""
    now, rows, details = registry.now(), tables.hermes_instances, tables.instance_details
    beat_at = None if row["beat_s"] is None else now - timedelta(seconds=row["beat_s"])
    machine = f"m-{instance.user_alias}"
    with registry._context.database.writing() as connection:
        values = {"last_heartbeat": beat_at, "status": row["status"], "vm_id": machine}
        connection.execute(rows.update().where(rows.c.id == instance.id).values(values))
        reported = details.update().where(details.c.instance_id == instance.id)
        connection.execute(reported.values(reported_gateway=row["gateway"]))
        samples = tables.health_samples
        connection.execute(samples.delete().where(samples.c.instance_id == instance.id))
    if row["sample"]:
        age_s, gateway = row["sample"]
        at = now - timedelta(seconds=age_s)
        sample = HealthSample(at, None, "r", gateway, 0, None, None, None)
        registry.health_samples.add({instance.id: (at, sample.to_json())})


def test_heartbeats_that_no_monitor_could_read_are_not_missed(registry: Registry, clock: TurnedClock) -> None:
    ada, bob = (running(registry, user) for user in ("ada", "bob"))
    beat(registry, bob)
    clock.turn(91)
    beat(registry, ada)
    watched(registry)
    assert conditions(registry)[bob.id] == "silent"
    clock.turn(12 * 60)
    assert conditions(registry) == {ada.id: "unknown", bob.id: "silent"}, "what was missed before stays missed"
    why = fleet_health(registry).judgements[ada.id].reasons
    assert (
        "heartbeats are read by no monitor: the last one looked 11 min ago, its last heartbeat came 12 min ago" in why
    )


def test_an_instance_that_is_asked_is_judged_by_its_answer_and_by_what_is_recorded(
    registry: Registry, clock: TurnedClock
) -> None:
    ada = running(registry, "ada")
    machine, node = MachineState(MachineId("m-ada"), MachineStatus.READY), NodeState(ada.id, 1, "d", "r")
    observed = Observation(ada, machine, node, GatewayHealth.OK)
    cases = {
        "the gateway answered 0 s ago": observed,
        "its machine was gone when JustAVPS was asked 0 s ago": Observation(ada, None),
        "its machine was stopped when JustAVPS was asked 0 s ago": Observation(
            ada, replace(machine, status=MachineStatus.STOPPED)
        ),
        "hermes-node did not answer through the toolbox": Observation(ada, machine),
        "its machine is not personalised": replace(observed, node=replace(node, instance_id=None), gateway=None),
        "its machine is personalised for another instance": replace(
            observed, node=replace(node, instance_id=InstanceId("other")), gateway=None
        ),
        "its gateway is fenced": replace(observed, node=replace(node, fenced=True)),
    }
    for reason, observation in cases.items():
        judged = observed_health(registry, observation)
        assert judged is not None
        assert judged.reasons == (reason,)
    answered(registry, ada, GatewayHealth.SILENT)
    clock.turn(10)
    well = observed_health(registry, observed)
    assert well is not None
    assert well.condition is Condition.HEALTHY, "an older answer outweighed the one of now"
    watched(registry)
    late = observed_health(
        registry, replace(observed, instance=replace(ada, last_heartbeat=registry.now() - timedelta(hours=1)))
    )
    assert late is not None
    assert late.condition is Condition.DEGRADED
    assert observed_health(registry, replace(observed, instance=replace(ada, status=InstanceStatus.SUSPENDED))) is None
