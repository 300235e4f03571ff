"""Shapes of what fleet and registry commands print as JSON are an interface."""

from dataclasses import replace
from datetime import UTC, datetime

from hermesops.cli.views import fleet as fleet_view
from hermesops.converge.results import Converged, HostResult, TaskFailure
from hermesops.drift.changes import happenings
from hermesops.drift.finding import Kind
from hermesops.drift.rebuild import plan_rebuild
from hermesops.drift.repairs import write_finding
from hermesops.errors import Hint
from hermesops.model.audit import AuditEntry
from hermesops.model.backup import Loss
from hermesops.model.fleet import CellTally, Confirmation, Unconfirmed
from hermesops.model.ids import CellName
from hermesops.model.instance import InstanceStatus
from hermesops.model.plan import Plan
from hermesops.model.stack import StackHistoryEntry
from hermesops.model.unassigned_machine import MachineRole, UnassignedStatus
from tests.support.fleets.in_memory import recovered

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CELL = CellName("cell1")
RUNNING, SUSPENDED = InstanceStatus.RUNNING, InstanceStatus.SUSPENDED

UNASSIGNED = {
    (MachineRole.WARM, UnassignedStatus.READY): 2,
    (MachineRole.WARM, UnassignedStatus.PREPARING): 1,
    (MachineRole.PREVIOUS, UnassignedStatus.CLAIMED): 1,
}


def test_the_fleet_in_numbers() -> None:
    tally = CellTally(CELL, "hel1", (RUNNING, SUSPENDED, RUNNING), {Plan.LIGHT: 2, Plan.HEAVY: 1}, UNASSIGNED)
    assert fleet_view.status([tally]) == {
        "instances": 3,
        "by_status": {"running": 2, "suspended": 1},
        "by_plan": {"heavy": 1, "light": 2},
        "unassigned": {"previous": {"claimed": 1}, "warm": {"preparing": 1, "ready": 2}},
        "cells": [
            {
                "cell": "cell1",
                "region": "hel1",
                "instances": 3,
                "by_status": {"running": 2, "suspended": 1},
                "by_plan": {"heavy": 1, "light": 2},
                "unassigned": {"previous": {"claimed": 1}, "warm": {"preparing": 1, "ready": 2}},
                "grid": ".S.",
            }
        ],
    }


def test_a_grid_is_wrapped_and_every_sign_is_explained() -> None:
    lines = fleet_view.grid([CellTally(CELL, "hel1", (RUNNING,) * 90 + (SUSPENDED,), {Plan.LIGHT: 91})], confirmed=88)
    assert lines[0] == f"cell1    91  {'.' * 80}"
    assert lines[1].strip() == "..........S"
    assert lines[-1] == (
        "91 instances in 1 cells: 90 running (88 confirmed), 1 suspended; 91 light   (. running, S suspended)"
    )
    pooled = CellTally(CELL, "hel1", (), {}, UNASSIGNED)
    assert fleet_view.grid([pooled], confirmed=0)[-1] == (
        "machines beside them: 1 claimed (previous), 1 preparing (warm), 2 ready (warm)"
    )
    assert fleet_view.grid([], confirmed=0) == ["no instances; hermesops provision USER --plan light makes one"]


def test_who_is_not_known_to_run_is_named() -> None:
    others = (Unconfirmed("bob", "m2", "gone"), Unconfirmed("cleo", "m3", "stopped"), Unconfirmed("dan", "m4", ""))
    seen, fleet = Confirmation(AT, 3, others), [CellTally(CELL, "hel1", (RUNNING,) * 6, {Plan.LIGHT: 6})]
    assert fleet_view.confirmation(seen) == {
        "listed_at": "2026-01-02T03:04:05+00:00",
        "confirmed": 3,
        "unconfirmed": [
            {"user": "bob", "machine": "m2", "status": "gone"},
            {"user": "cleo", "machine": "m3", "status": "stopped"},
            {"user": "dan", "machine": "m4", "status": None},
        ],
    }
    assert fleet_view.confirmation_lines(seen, fleet) == [
        "machines: 3 of 6 running were ready at 2026-01-02 03:04 UTC, when JustAVPS was last asked",
        "not confirmed: bob, machine gone",
        "not confirmed: cleo, machine stopped",
        "not confirmed: dan, on a machine that is newer",
        "hermesops fleet status --live asks; hermesops fleet drift says what to do",
    ]
    crowd = replace(seen, unconfirmed=others * 5)
    assert "not confirmed: 5 more" in fleet_view.confirmation_lines(crowd, fleet)
    assert len(fleet_view.confirmation_lines(replace(seen, confirmed=6, unconfirmed=()), fleet)) == 1


def test_where_the_vendor_was_never_asked_nobody_is_known_to_run() -> None:
    never = Confirmation(None, 0)
    assert fleet_view.confirmation(never) == {"listed_at": None, "confirmed": 0, "unconfirmed": []}
    assert fleet_view.confirmation_lines(never, [CellTally(CELL, "hel1", (RUNNING, SUSPENDED))]) == [
        "machines: none of 1 running is confirmed, JustAVPS was not asked yet: hermesops fleet status --live asks"
    ]
    assert fleet_view.confirmation_lines(never, [CellTally(CELL, "hel1", (SUSPENDED,))]) == []


def test_commands_that_follow_each_other_are_numbered() -> None:
    lost = write_finding(Kind.MACHINE_MISSING, "gone", cell="cell1", machine="m", user="ada", plan="light")
    assert fleet_view.drift_lines([lost])[2:4] == [
        "    1. $ hermesops instance terminate ada --now --without-backup",
        "    2. $ hermesops provision ada --plan light",
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
        "backups: at most 22 h 13 min of what agents know would be lost with their machines; 1 have none yet"
    ]
    late = fleet_view.loss_lines(replace(well, oldest_s=90_000, late=3, never=0))
    assert late == [
        "backups: at most 25 h 0 min of what agents know would be lost with their machines",
        (
            "3 of 40 agents have none of the last 24 h: hermesops backup list names them, "
            "hermesops runbook run backups-are-late leads to their backups"
        ),
    ]
    assert fleet_view.loss_lines(Loss(0, 0, 0, 0, 86_400)) == []


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
        "1 differences: 1 critical",
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
