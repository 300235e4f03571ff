"""Differences, changes and applied roles; their shapes in JSON are an interface."""

from datetime import UTC, datetime

from hermesops.agents.drift.finding import Kind
from hermesops.agents.drift.history.changes import happenings
from hermesops.agents.drift.repairs import write_finding
from hermesops.cli.views.fleet import drift as drift_view
from hermesops.errors import Hint
from hermesops.machines.converge.results import Converged, HostResult, TaskFailure
from hermesops.model.access.audit import AuditEntry
from hermesops.model.ids import CellName
from hermesops.model.stack import StackHistoryEntry
from hermesops.views.agents import drift as drift_shapes

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CELL = CellName("cell1")


def test_commands_that_follow_each_other_are_numbered() -> None:
    lost = write_finding(Kind.MACHINE_MISSING, "gone", cell="cell1", machine="m", user="ada", plan="light")
    assert drift_view.drift_lines([lost])[2:4] == [
        "    1. $ hermesops instance terminate ada --now --without-backup",
        "    2. $ hermesops provision ada --plan light",
    ]


def test_a_difference_and_what_to_type() -> None:
    finding = write_finding(Kind.STOPPED, "it stands still", cell="cell1", machine="m", user="ada", plan="light")
    assert drift_shapes.drift([finding]) == {
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
    assert drift_view.drift_lines([finding]) == [
        "critical  stopped  ada (m)",
        "    it stands still",
        "    $ hermesops provision ada --plan light",
        "1 difference: 1 critical",
    ]
    assert drift_view.drift_lines([]) == ["nothing differs"]


def test_what_happened_in_order_and_who_did_it() -> None:
    later = AT.replace(hour=4)
    entry = AuditEntry(2, later, "ada@desk", "status_changed", "instance/i", "", {"status": "a"}, {"status": "b"})
    reboot = AuditEntry(
        3, later, "ada@desk", "machine_reboot_seen", "machine/m", "", {"boot_id": "1"}, {"boot_id": "2"}
    )
    early = AuditEntry(1, AT.replace(year=2025), "ada@desk", "too_early", "x", "", {}, {})
    run = StackHistoryEntry("update", AT, AT, failed=True, changes={"create": 2, "same": 1})
    rows = drift_shapes.changes(happenings([early, entry, reboot], {CELL: [run]}, since=AT))
    assert [(row["at"], row["who"], row["what"], row["subject"], row["detail"]) for row in rows] == [
        ("2026-01-02T03:04:05+00:00", "pulumi", "stack_update", "stack/cell1", "2 create, failed"),
        ("2026-01-02T04:04:05+00:00", "ada@desk", "status_changed", "instance/i", "status a -> b"),
        ("2026-01-02T04:04:05+00:00", None, "machine_reboot_seen", "machine/m", "boot_id 1 -> 2"),
    ]


def test_machines_that_roles_were_applied_to() -> None:
    failed = HostResult("ada", "failed", 3, 0, ("a",), TaskFailure("b : c", "no room"))
    assert drift_shapes.converged(Converged("instance", {"ada": failed}, 1.0)) == [
        {"instance": "ada", "status": "failed", "changed": 1, "failure": "b : c: no room"}
    ]
