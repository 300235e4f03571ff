"""Shapes of what fleet and registry commands print as JSON are an interface."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from hermesops.agents.drift.finding import Kind
from hermesops.agents.drift.history.changes import happenings
from hermesops.agents.drift.lost_registry.rebuild import plan_rebuild
from hermesops.agents.drift.repairs import write_finding
from hermesops.agents.health.fleet import FleetHealth, selected
from hermesops.automation.monitor.decide import Actions
from hermesops.cli.views import fleet as fleet_view
from hermesops.errors import Hint
from hermesops.machines.converge.results import Converged, HostResult, TaskFailure
from hermesops.model.access.audit import AuditEntry
from hermesops.model.fleet.health import Condition, Judgement
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.fleet.overview import CellTally, RecordedInstance
from hermesops.model.fleet.unassigned_machine import MachineRole, UnassignedStatus
from hermesops.model.ids import CellName, InstanceId, OperationId
from hermesops.model.operation import BackgroundWork, Operation, OperationKind, OperationStatus
from hermesops.model.plan import Plan
from hermesops.model.recovery.backup import Loss
from hermesops.model.rollout.records import Freeze
from hermesops.model.stack import StackHistoryEntry
from tests.support.fleets.in_memory import recovered
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
    for number, one in enumerate(statuses):
        status = RUNNING if isinstance(one, Condition) else one
        plan = Plan.HEAVY if number < heavy else Plan.LIGHT
        row = RecordedInstance(InstanceId(f"i{number}"), f"user{number}", plan, status)
        rows.append(row)
        if isinstance(one, Condition):
            judgements[row.id] = Judgement(one, (f"it is {one}", "so it is"))
    cell = CellTally(CELL, "hel1", tuple(rows), UNASSIGNED if unassigned else {})
    return FleetHealth((cell,), judgements, AT if listed else None)


LOSS = Loss(agents=3, oldest_s=90_000, late=2, never=0, objective_s=86_400)
NOBODY = BackgroundWork(0, None, is_attended=False, monitor="", backups_at=None)


@pytest.mark.parametrize(
    ("actions", "may"),
    [
        ("none", "only reports (monitoring.actions none)"),
        ("restart", "may reboot dead machines (monitoring.actions restart)"),
        ("all", "may reboot dead machines, and replace those that stay dead (monitoring.actions all)"),
    ],
)
def test_one_line_says_whether_a_monitor_acts_and_what_it_may_do(actions: str, may: str) -> None:
    acts = replace(NOBODY, monitor="host-1:7:aa.1.bb")
    assert fleet_view.background_lines(acts, actions, None, AT) == [f"monitor: host-1 acts; it {may}"]
    assert fleet_view.background_lines(NOBODY, actions, None, AT) == [
        f"monitor: none runs, so that nobody repairs dead machines; hermesops monitor starts one; it {may}"
    ]


def test_work_that_waits_while_nobody_works_is_a_line() -> None:
    waits = replace(NOBODY, waiting=2, waiting_since=AT - timedelta(hours=1))
    assert fleet_view.background_lines(waits, "restart", LOSS, AT)[1] == (
        "workers: none seems to run: 2 operations wait, since 2026-01-02 02:04 UTC; "
        "hermesops operation list names them, hermesops worker runs them"
    )
    assert len(fleet_view.background_lines(replace(waits, is_attended=True), "restart", None, AT)) == 1


def test_late_backups_that_no_process_makes_are_a_line() -> None:
    (_, line) = fleet_view.background_lines(NOBODY, "restart", LOSS, AT)
    assert line.startswith("workers: none seems to run: 2 backups are late, and no process began the job ever; ")
    ran = replace(NOBODY, backups_at=AT - timedelta(minutes=16))
    (_, line) = fleet_view.background_lines(ran, "restart", LOSS, AT)
    assert "no process began the job since 2026-01-02 02:48 UTC" in line
    assert len(fleet_view.background_lines(replace(ran, backups_at=AT), "restart", LOSS, AT)) == 1
    assert len(fleet_view.background_lines(NOBODY, "restart", replace(LOSS, late=0), AT)) == 1


def test_the_same_for_programs() -> None:
    work = BackgroundWork(1, AT, is_attended=False, monitor="h:1:aa.1.bb", backups_at=None)
    assert fleet_view.background(work, "none") == {
        "monitor": {"acts": "h:1:aa.1.bb", "actions": "none", "may": "only reports"},
        "workers": {"waiting": 1, "waiting_since": "2026-01-02T03:04:05+00:00", "at_work": False, "backups_at": None},
    }


def test_every_setting_of_what_the_monitor_may_do_has_words() -> None:
    assert set(fleet_view.MONITOR_MAY) == set(Actions)


def test_the_fleet_in_numbers() -> None:
    found = fleet(Condition.HEALTHY, SUSPENDED, Condition.DOWN, unassigned=True, heavy=1)
    assert fleet_view.status(found) == {
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
    found = fleet(*[Condition.HEALTHY] * 84, *Condition, SUSPENDED, InstanceStatus.PROVISIONING)
    lines = fleet_view.grid(found)
    assert lines[0] == f"cell1    91  {'.' * 80}"
    assert lines[1].strip() == "....X-D?.SP"
    assert lines[-1] == (
        "91 instances in 1 cell: 1 provisioning, 89 running, 1 suspended; 91 light   "
        "(. healthy, D degraded, X down, - silent, ? unknown, P provisioning, S suspended)"
    )
    assert fleet_view.grid(fleet(unassigned=True))[-1] == (
        "machines beside them: 1 claimed (previous), 1 preparing (warm), 2 ready (warm)"
    )
    empty = FleetHealth((), {}, None)
    assert fleet_view.grid(empty) == ["no instances; hermesops provision USER --plan light makes one"]


def test_who_is_not_well_is_named_with_the_reason() -> None:
    found = fleet(Condition.HEALTHY, Condition.SILENT, Condition.UNKNOWN, Condition.DOWN)
    shown = selected(found, {Condition.DOWN, Condition.SILENT})
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
    assert fleet_view.judged(found, shown) == {"machines_listed_at": "2026-01-02T03:04:05+00:00", "instances": rows}
    assert fleet_view.judged_table(shown)[0] == {**rows[0], "reasons": "it is down; so it is"}
    assert fleet_view.health_lines(found) == [
        "health: 1 down, 1 silent, 1 unknown, 1 healthy; JustAVPS listed its machines at 2026-01-02 03:04 UTC"
    ]


def test_where_nothing_should_run_nothing_is_judged() -> None:
    never = fleet(Condition.UNKNOWN, SUSPENDED, listed=False)
    assert fleet_view.judged(never, ()) == {"machines_listed_at": None, "instances": []}
    assert fleet_view.health_lines(never) == ["health: 1 unknown; JustAVPS was never asked for its machines"]
    assert fleet_view.health_lines(fleet(SUSPENDED)) == []


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
    found = fleet(*[condition] * count, *[Condition.HEALTHY] * well)
    told = fleet_view.at_once_lines(found, 0.2)
    assert len(told) == lines
    shows = "hermesops platform show" if condition is Condition.SILENT else "hermesops fleet changes"
    assert all(line.startswith(f"{count} {condition} at once") and shows in line for line in told)
    assert fleet_view.at_once_lines(found, 1.0) == [], "as monitoring.silent_share has it"


def test_commands_that_follow_each_other_are_numbered() -> None:
    lost = write_finding(Kind.MACHINE_MISSING, "gone", cell="cell1", machine="m", user="ada", plan="light")
    assert fleet_view.drift_lines([lost])[2:4] == [
        "    1. $ hermesops instance terminate ada --now --without-backup",
        "    2. $ hermesops provision ada --plan light",
    ]


def test_a_freeze_that_holds_is_not_forgotten() -> None:
    at = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)
    held = Freeze("f1", at, at + timedelta(hours=4), "JustAVPS is\ndown", "ada@example.net")
    assert fleet_view.freeze_lines([held, replace(held, id="f2", ends_at=None)]) == [
        f"rollouts are frozen {span} by ada@example.net, “JustAVPS is down”: "
        f"hermesops rollout unfreeze {name} ends that"
        for span, name in (("until 2026-01-02 07:04 UTC", "f1"), ("without an end", "f2"))
    ]


def test_what_would_be_lost_with_all_machines() -> None:
    well = Loss(agents=40, oldest_s=80_000, late=0, never=1, objective_s=86_400)
    assert fleet_view.loss(well) == {
        "agents": 40,
        "oldest_s": 80_000,
        "late": 0,
        "never": 1,
        "objective_s": 86_400,
    }
    assert fleet_view.loss_lines(well) == [
        "backups: the oldest unsaved change is 22 h 13 min old; 1 of 40 agents has no backup yet"
    ]
    late = fleet_view.loss_lines(replace(well, oldest_s=90_000, late=3, never=0))
    assert late == [
        "backups: the oldest unsaved change is 1 d 1 h old",
        (
            "backups: 3 of 40 agents have no backup of the last 24 h: hermesops backup list names them, "
            "hermesops runbook run backups-are-late leads to their backups"
        ),
    ]
    assert fleet_view.loss_lines(Loss(0, 0, 0, 0, 86_400)) == []


def test_a_few_instances_are_spelled() -> None:
    found = fleet(Condition.UNKNOWN)
    [row, _, total] = fleet_view.grid(found)
    [instance] = found.cells[0].instances
    assert row == f"cell1  {instance.user}  unknown"
    assert total == "1 instance in 1 cell: 1 running; 1 light"
    assert fleet_view.grid(fleet(Condition.HEALTHY, SUSPENDED))[1].endswith("  suspended")


def test_a_difference_and_what_to_type() -> None:
    finding = write_finding(Kind.STOPPED, "it stands still", cell="cell1", machine="m", user="ada", plan="light")
    assert fleet_view.drift([finding]) == {
        "findings": [
            {
                "kind": "stopped",
                "severity": "critical",
                "subject": "ada",
                "cell": "cell1",
                "machine": "m",
                "seen": "it stands still",
                "repair": [Hint(("provision", "ada", "--plan", "light"))],
                "otherwise": [],
            }
        ],
        "by_severity": {"critical": 1},
    }
    assert fleet_view.drift_lines([finding]) == [
        "critical  stopped  ada (m)",
        "    it stands still",
        "    $ hermesops provision ada --plan light",
        "1 difference: 1 critical",
    ]
    assert fleet_view.drift_lines([]) == ["nothing differs"]


def test_what_happened_in_order_and_who_did_it() -> None:
    later = AT.replace(hour=4)
    made = AuditEntry(2, later, "ada@desk", "status_changed", "instance/i", "", {"status": "a"}, {"status": "b"})
    seen = AuditEntry(3, later, "ada@desk", "machine_reboot_seen", "machine/m", "", {"boot_id": "1"}, {"boot_id": "2"})
    early = AuditEntry(1, AT.replace(year=2025), "ada@desk", "too_early", "x", "", {}, {})
    run = StackHistoryEntry("update", AT, AT, failed=True, changes={"create": 2, "same": 1})
    rows = fleet_view.changes(happenings([early, made, seen], {CELL: [run]}, since=AT))
    assert [(row["at"], row["who"], row["what"], row["subject"], row["detail"]) for row in rows] == [
        ("2026-01-02T03:04:05+00:00", "pulumi", "stack_update", "stack/cell1", "2 create, failed"),
        ("2026-01-02T04:04:05+00:00", "ada@desk", "status_changed", "instance/i", "status a -> b"),
        ("2026-01-02T04:04:05+00:00", None, "machine_reboot_seen", "machine/m", "boot_id 1 -> 2"),
    ]


def test_a_rebuilt_registry_shows_no_secret() -> None:
    planned = plan_rebuild([recovered(0).called("")])
    shape = fleet_view.rebuild(planned, written=1)
    assert shape["instances"] == [
        {
            "instance_id": recovered(0).id,
            "user": recovered(0).user_id,
            "plan": "light",
            "cell": "cell1",
            "machine_name": recovered(0).machine_name,
            "machine_id": "m-0",
            "epoch": 1,
        }
    ]
    assert (shape["written"], len(planned.left)) == (1, 1)
    assert "k" * 43 not in str((shape, fleet_view.rebuild_lines(planned), planned))


def test_machines_that_roles_were_applied_to() -> None:
    failed = HostResult("ada", "failed", 3, 0, ("a",), TaskFailure("b : c", "no room"))
    assert fleet_view.converged(Converged("instance", {"ada": failed}, 1.0)) == [
        {"instance": "ada", "status": "failed", "changed": 1, "failure": "b : c: no room"}
    ]


def test_operations_that_nobody_works_on_are_named_with_what_continues_them() -> None:
    stopped = [
        Operation(
            OperationId(f"0{number}"),
            OperationKind.SCHEDULE_TERMINATION,
            "instance/i",
            InstanceId("i"),
            {"user": "dan"},
            OperationStatus.RUNNING,
            "",
            "",
            AT,
            AT,
        )
        for number in range(12)
    ]
    lines = fleet_view.operation_lines(stopped, 1)
    assert lines[0] == (
        "operation: schedule termination of dan, since 2026-01-02 03:04 UTC, has not ended and nobody works on it: "
        "hermesops operation continue 00 continues it"
    )
    assert lines[10:] == [
        "2 more: hermesops operation list names them",
        "1 operation is being worked on: hermesops operation list shows them",
    ]
    assert fleet_view.operation_lines([], 0) == []
