"""Counts, grid and health of the fleet; their shapes in JSON are an interface."""

from datetime import UTC, datetime

from hermesops.agents.health.fleet import FleetHealth, selected
from hermesops.base.narration import counted
from hermesops.cli.views.fleet import grid
from hermesops.cli.views.fleet import health as health_view
from hermesops.model.fleet.health import Condition, Judgement
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.fleet.overview import CellTally, RecordedInstance
from hermesops.model.fleet.unassigned_machine import MachineRole, UnassignedStatus
from hermesops.model.ids import CellName, InstanceId
from hermesops.model.plan import Plan
from hermesops.views.agents import fleet as fleet_shapes
from tests.support.suite.cases import each_case

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CELL = CellName("cell1")
RUNNING, SUSPENDED = InstanceStatus.RUNNING, InstanceStatus.SUSPENDED
UNASSIGNED = {
    (MachineRole.WARM, UnassignedStatus.READY): 2,
    (MachineRole.WARM, UnassignedStatus.PREPARING): 1,
    (MachineRole.PREVIOUS, UnassignedStatus.CLAIMED): 1,
}


def fleet(
    *statuses: InstanceStatus | Condition, listed: bool = True, unassigned: bool = False, heavy: int = 0
) -> FleetHealth:
    """A cell with an instance of each status; those that should run are given by their conditions."""
    rows, judgements = [], {}
    for number, condition in enumerate(statuses):
        status = RUNNING if isinstance(condition, Condition) else condition
        plan = Plan.HEAVY if number < heavy else Plan.LIGHT
        row = RecordedInstance(InstanceId(f"i{number}"), f"user{number}", plan, status)
        rows.append(row)
        if isinstance(condition, Condition):
            judgements[row.id] = Judgement(condition, (f"it is {condition}", "so it is"))
    cell = CellTally(CELL, "hel1", tuple(rows), UNASSIGNED if unassigned else {})
    return FleetHealth((cell,), judgements, AT if listed else None)


def test_the_fleet_in_numbers() -> None:
    fleet_health = fleet(Condition.HEALTHY, SUSPENDED, Condition.DOWN, unassigned=True, heavy=1)
    assert fleet_shapes.tallies(fleet_health) == {
        "instances": 3,
        "by_status": {"running": 2, "suspended": 1},
        "by_plan": {"heavy": 1, "light": 2},
        "by_health": {"down": 1, "healthy": 1},
        "unassigned": {"previous": {"claimed": 1}, "warm": {"preparing": 1, "ready": 2}},
        "cells": [
            {
                "cell": "cell1",
                "region": "hel1",
                "instances": 3,
                "by_status": {"running": 2, "suspended": 1},
                "by_plan": {"heavy": 1, "light": 2},
                "by_health": {"down": 1, "healthy": 1},
                "unassigned": {"previous": {"claimed": 1}, "warm": {"preparing": 1, "ready": 2}},
                "grid": ".SX",
            }
        ],
    }


def test_a_grid_is_wrapped_and_every_sign_is_explained() -> None:
    fleet_health = fleet(*[Condition.HEALTHY] * 84, *Condition, SUSPENDED, InstanceStatus.PROVISIONING)
    lines = grid.grid(fleet_health)
    assert lines[0] == f"cell1    91  {'.' * 80}"
    assert lines[1].strip() == "....X-D?.SP"
    assert lines[-1] == (
        "91 instances in 1 cell: 1 provisioning, 89 running, 1 suspended; 91 light   "
        "(. healthy, D degraded, X down, - silent, ? unknown, P provisioning, S suspended)"
    )
    assert grid.grid(fleet(unassigned=True))[-1] == (
        "machines without an instance: 1 claimed (previous), 1 preparing (warm), 2 ready (warm)"
    )
    empty = FleetHealth((), {}, None)
    assert grid.grid(empty) == ["no instances; hermesops provision USER --plan light makes one"]


def test_who_is_not_well_is_named_with_the_reason() -> None:
    fleet_health = fleet(Condition.HEALTHY, Condition.SILENT, Condition.UNKNOWN, Condition.DOWN)
    shown = selected(fleet_health, {Condition.DOWN, Condition.SILENT})
    rows = [
        {
            "user": f"user{number}",
            "instance_id": f"i{number}",
            "cell": "cell1",
            "plan": "light",
            "health": condition,
            "reasons": [f"it is {condition}", "so it is"],
        }
        for number, condition in ((3, "down"), (1, "silent"))
    ]
    assert fleet_shapes.judged(fleet_health, shown) == {
        "machines_listed_at": "2026-01-02T03:04:05+00:00",
        "instances": rows,
    }
    assert health_view.judged_table(shown)[0] == {**rows[0], "reasons": "it is down; so it is"}
    assert health_view.health_lines(fleet_health) == [
        "health: 1 down, 1 silent, 1 unknown, 1 healthy; JustAVPS listed its machines at 2026-01-02 03:04 UTC"
    ]


def test_where_nothing_should_run_nothing_is_judged() -> None:
    never = fleet(Condition.UNKNOWN, SUSPENDED, listed=False)
    assert fleet_shapes.judged(never, ()) == {"machines_listed_at": None, "instances": []}
    assert health_view.health_lines(never) == ["health: 1 unknown; JustAVPS has not listed its machines yet"]
    assert health_view.health_lines(fleet(SUSPENDED)) == []


@each_case(
    ("condition", "count", "well", "lines"),
    [
        (Condition.SILENT, 1, 0, 0),
        (Condition.SILENT, 2, 1, 1),
        (Condition.SILENT, 2, 8, 0),
        (Condition.SILENT, 3, 8, 1),
        (Condition.DOWN, 2, 8, 0),
        (Condition.DOWN, 3, 8, 1),
    ],
)
def test_more_than_the_monitor_would_repair_at_once_have_one_cause(
    condition: Condition, count: int, well: int, lines: int
) -> None:
    fleet_health = fleet(*[condition] * count, *[Condition.HEALTHY] * well)
    at_once_lines = health_view.at_once_lines(fleet_health, 0.2)
    assert len(at_once_lines) == lines
    shows = "hermesops platform show" if condition is Condition.SILENT else "hermesops fleet changes"
    assert all(
        line.startswith(f"{counted(count, 'agent')} {condition} at once") and shows in line for line in at_once_lines
    )
    assert health_view.at_once_lines(fleet_health, 1.0) == [], "as monitoring.silent_share has it"


def test_a_few_instances_are_spelled() -> None:
    fleet_health = fleet(Condition.UNKNOWN)
    [row, _, total] = grid.grid(fleet_health)
    [instance] = fleet_health.cells[0].instances
    assert row == f"cell1  {instance.user}  unknown"
    assert total == "1 instance in 1 cell: 1 running; 1 light"
    assert grid.grid(fleet(Condition.HEALTHY, SUSPENDED))[1].endswith("  suspended")
