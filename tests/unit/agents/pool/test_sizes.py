"""Settings and rows say how large each cell's pool should be, and which cells are short."""

from dataclasses import replace
from datetime import timedelta

from hermesops.agents.pool.decide import PoolSizes, Target
from hermesops.model.fleet.cell import Cell
from hermesops.model.fleet.unassigned_machine import MachineRole, UnassignedStatus, pool_subject
from hermesops.model.ids import CellName, OperationId
from hermesops.model.operation import Operation, OperationKind, OperationStatus
from hermesops.model.plan import Plan
from tests.support.fleets.in_memory import AT, IMAGE, pooled

TYPES = {Plan.LIGHT: "starter", Plan.HEAVY: "pro"}
SIZES = PoolSizes({Plan.LIGHT: 1, Plan.HEAVY: 0}, TYPES, IMAGE, cell_size=40)
CELL = Cell(CellName("cell1"), "hel1", only_plan=None, machines=3, created_at=AT)


def fill(status: OperationStatus) -> Operation:
    return Operation(
        id=OperationId("o"),
        kind=OperationKind.POOL_FILL,
        subject=pool_subject(CELL.name),
        status=status,
        step="",
        outcome="",
        instance_id=None,
        intent={},
        created_at=AT,
        updated_at=AT,
    )


def test_a_pool_holds_what_its_plans_are_set_to() -> None:
    light = Target(Plan.LIGHT, 1, "starter", IMAGE)
    assert SIZES.targets(CELL) == [light]
    assert SIZES.targets(replace(CELL, only_plan=Plan.HEAVY)) == []
    both = replace(SIZES, of_plan={Plan.LIGHT: 1, Plan.HEAVY: 2})
    assert set(both.targets(CELL)) == {light, Target(Plan.HEAVY, 2, "pro", IMAGE)}


def test_a_cell_is_short_until_somebody_fills_its_pool() -> None:
    later = AT + timedelta(hours=1)
    assert SIZES.short_cells([CELL], [], [], later) == [CELL.name]
    assert SIZES.short_cells([CELL], [pooled(0)], [], later) == []
    assert SIZES.short_cells([CELL], [], [fill(OperationStatus.PENDING)], later) == []
    assert SIZES.short_cells([CELL], [], [fill(OperationStatus.DONE)], later) == [CELL.name]
    assert SIZES.short_cells([CELL], [], [fill(OperationStatus.DONE)], AT + timedelta(minutes=1)) == []


def test_a_full_cell_takes_no_machine_more_and_anothers_machines_do_not_count() -> None:
    assert SIZES.short_cells([replace(CELL, machines=40)], [], [], AT) == []
    assert SIZES.short_cells([CELL], [pooled(0, cell=CellName("cell2"))], [], AT) == [CELL.name]


def test_without_pools_nothing_is_short_but_what_is_left_of_one_is_given_up() -> None:
    none = replace(SIZES, of_plan={Plan.LIGHT: 0})
    assert none.short_cells([CELL], [pooled(0, role=MachineRole.REPLACEMENT)], [], AT) == []
    assert none.short_cells([CELL], [pooled(0, status=UnassignedStatus.READY)], [], AT) == [CELL.name]
