from dataclasses import replace

from hermesops.agents.drift.collect import listing
from hermesops.model.fleet.overview import MachineObservation
from hermesops.model.ids import MachineId
from hermesops.vendor.justavps.wire import MachineStatus
from tests.support.fleets.in_memory import machine_for, ordered


def test_machines_that_instances_are_on_and_that_are_not_listed_are_missing() -> None:
    rows = [ordered(number) for number in range(3)]
    new = replace(rows[2], instance=replace(rows[2].instance, machine_id=None))
    ready, foreign = machine_for(rows[0]), machine_for(rows[1], id="m-x", name="somebody-elses")
    observations, missing = listing([ready, foreign], [*rows[:2], new], "local", {MachineId(ready.id): "boot"})
    assert observations == [MachineObservation(MachineId(ready.id), ready.name, ready.server_type, "ready", "boot")]
    assert missing == {rows[1].instance.machine_id: rows[1].instance.machine_name}


def test_a_machine_that_is_listed_is_not_missing_whatever_it_is_called() -> None:
    row = ordered(0)
    observations, missing = listing([machine_for(row, status=MachineStatus.DELETED)], [row], "local", {})
    assert [observation.status for observation in observations] == ["deleted"]
    assert missing == {}
