"""What a pool does next, for whatever it looks like."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from hermesops.agents.pool.decide import (
    ApplyCell,
    Forget,
    MakeReady,
    OrderMachines,
    PoolMachine,
    PoolObservation,
    Record,
    Retire,
    Target,
    decide,
    describe,
    ready_for,
)
from hermesops.model.fleet.unassigned_machine import UnassignedMachine, UnassignedStatus
from hermesops.model.ids import CellName, ImageId, InstanceId, MachineId
from hermesops.model.operation import Done, Refused
from hermesops.model.plan import Plan
from hermesops.vendor.justavps.wire import MachineStatus
from tests.support.fleets.in_memory import IMAGE, pooled
from tests.support.suite.cases import each_case

CELL = CellName("cell1")
LIGHT = Target(Plan.LIGHT, 2, "starter", IMAGE)
GONE = replace(pooled(9), wanted=False, status=UnassignedStatus.DRAINING)


def held(row: UnassignedMachine, **changes: Any) -> PoolMachine:  # noqa: ANN401 - any field
    """A machine that is as its row says."""
    as_it_is = PoolMachine(row, row.machine_id, MachineStatus.READY, in_stack=True)
    return replace(as_it_is, **changes)


def sight(
    *machines: PoolMachine, target: Target | None = LIGHT, room: int = 10, lost: tuple[str, ...] = ()
) -> PoolObservation:
    return PoolObservation(CELL, (target,) if target else (), machines, room, lost)


def test_a_pool_that_is_as_wanted_is_finished() -> None:
    ended = decide(sight(held(pooled(0)), held(pooled(1))))
    assert ended == Done("the pool of cell1 is ready: 2 light")


def test_what_lacks_is_ordered_as_far_as_the_cell_has_room() -> None:
    assert decide(sight(held(pooled(0)))) == OrderMachines(LIGHT, 1)
    assert decide(sight(room=1)) == OrderMachines(LIGHT, 1)
    assert decide(sight(room=0)) == Done("the pool of cell1 is ready: 0 light of 2 (cell1 is full)")


def test_the_cell_is_run_for_what_is_ordered_and_for_what_was_given_up() -> None:
    ordered = replace(pooled(0), machine_id=None, status=UnassignedStatus.PREPARING)
    for machine in (PoolMachine(ordered), held(GONE), held(GONE, machine_id=None)):
        assert decide(sight(machine, target=None if machine.row is GONE else replace(LIGHT, size=1))) == ApplyCell()


def test_a_machine_is_recorded_then_made_ready() -> None:
    grown = replace(pooled(0), machine_id=None, status=UnassignedStatus.PREPARING)
    target = replace(LIGHT, size=1)
    pool_machine = held(grown, machine_id=MachineId("m"))
    assert decide(sight(pool_machine, target=target)) == Record(((grown.name, MachineId("m")),))
    known = replace(grown, machine_id=MachineId("m"))
    assert decide(sight(held(known), target=target)) == MakeReady((known.name,))
    assert decide(
        sight(held(replace(known, status=UnassignedStatus.READY), is_silent=True), target=target)
    ) == MakeReady((known.name,))


@each_case(
    ("row", "changes", "message"),
    [
        ({}, {"belongs_to": InstanceId("i-1")}, "instance i-1"),
        ({}, {"status": MachineStatus.ERROR}, "status: error"),
        ({}, {"machine_id": None}, "no longer"),
        ({"machine_id": None}, {"machine_id": None}, "no longer"),
        ({}, {"machine_id": MachineId("twin")}, "another machine"),
        ({"image_id": ImageId("old")}, {}, "its image old"),
        ({"server_type": "pro"}, {}, "type starter now"),
    ],
)
def test_what_is_unfit_is_given_up(row: dict[str, Any], changes: dict[str, Any], message: str) -> None:
    machine = replace(pooled(0), **row)
    step = decide(sight(held(machine, **changes), held(pooled(1))))
    assert isinstance(step, Retire)
    [(name, why)] = step.machines
    assert name == machine.name
    assert message in why


def test_a_pool_shrinks_by_what_is_not_ready_then_by_what_waited_longest() -> None:
    old, young = pooled(0), replace(pooled(1), created_at=pooled(1).created_at + timedelta(hours=1))
    growing = replace(pooled(2), status=UnassignedStatus.PREPARING)
    step = decide(sight(held(old), held(young), held(growing), target=replace(LIGHT, size=1)))
    assert isinstance(step, Retire)
    assert {name for name, _ in step.machines} == {growing.name, old.name}


def test_without_a_target_everything_goes() -> None:
    step = decide(sight(held(pooled(0)), target=None))
    assert isinstance(step, Retire)
    assert decide(sight(target=None)) == Done("no pool is configured for cell1")


def test_what_is_gone_is_forgotten() -> None:
    gone = PoolMachine(GONE)
    assert decide(sight(gone)) == Forget((GONE.name,))


def test_machines_that_never_become_well_are_not_made_for_ever() -> None:
    lost = ("a: x", "b: x", "c: why")
    assert decide(sight(held(GONE), lost=lost)) == ApplyCell()
    ended = decide(sight(lost=lost))
    assert isinstance(ended, Refused)
    assert "c: why" in ended.error.message


def test_every_step_is_told() -> None:
    pool_observation = sight(held(pooled(0)))
    name = pooled(0).name
    for step in (
        Retire(((name, "why"),)),
        Forget((name,)),
        OrderMachines(LIGHT, 1),
        ApplyCell(),
        Record(((name, MachineId("m")),)),
        MakeReady((name,)),
    ):
        assert "cell1" in describe(step, pool_observation)


def test_a_newcomer_is_given_what_fits_and_has_waited_longest() -> None:
    fitting = pooled(0)
    later = replace(pooled(1), created_at=fitting.created_at + timedelta(seconds=1))
    unfit = [
        replace(pooled(2), status=UnassignedStatus.PREPARING),
        replace(pooled(3), wanted=False),
        replace(pooled(4), plan=Plan.HEAVY),
        replace(pooled(5), region="nbg1"),
        replace(pooled(6), image_id=ImageId("old")),
        replace(pooled(7), server_type="pro"),
    ]
    assert ready_for([later, *unfit, fitting], LIGHT, region="hel1") == [fitting, later]


def test_a_machine_that_is_ordered_again_says_why_the_one_before_is_not_used() -> None:
    order = OrderMachines(LIGHT, 1)
    assert describe(order, sight()) == "ordering 1 light machine for the pool of cell1"
    assert describe(order, sight(lost=("m-1: no answer",))) == (
        "ordering 1 light machine for the pool of cell1, replacing one that did not become ready: m-1: no answer"
    )
    assert describe(OrderMachines(LIGHT, 2), sight()).startswith("ordering 2 light machines")
