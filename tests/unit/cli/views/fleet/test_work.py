"""Unfinished operations, monitor and workers in the output of ``fleet status``."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from hermesops.automation.monitor.decide import Actions
from hermesops.cli.views.fleet import work as work_view
from hermesops.model.ids import InstanceId, OperationId
from hermesops.model.operation import BackgroundWork, Operation, OperationKind, OperationStatus
from hermesops.model.recovery.backup import Loss
from hermesops.views.agents import fleet as fleet_shapes

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
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
    assert work_view.background_lines(acts, actions, None, AT) == [f"monitor: host-1 acts; it {may}"]
    assert work_view.background_lines(NOBODY, actions, None, AT) == [
        f"monitor: not running, dead machines are not repaired; hermesops monitor starts one; it {may}"
    ]


def test_work_that_waits_while_nobody_works_is_a_line() -> None:
    waits = replace(NOBODY, waiting=2, waiting_since=AT - timedelta(hours=1))
    assert work_view.background_lines(waits, "restart", LOSS, AT)[1] == (
        "workers: none seems to run: 2 operations wait, since 2026-01-02 02:04 UTC; "
        "hermesops operation list names them, hermesops worker runs them"
    )
    assert len(work_view.background_lines(replace(waits, is_attended=True), "restart", None, AT)) == 1


def test_late_backups_that_no_process_makes_are_a_line() -> None:
    (_, line) = work_view.background_lines(NOBODY, "restart", LOSS, AT)
    assert line.startswith("workers: none seems to run: 2 backups are late, and no process began the job ever; ")
    ran = replace(NOBODY, backups_at=AT - timedelta(minutes=16))
    (_, line) = work_view.background_lines(ran, "restart", LOSS, AT)
    assert "no process began the job since 2026-01-02 02:48 UTC" in line
    assert len(work_view.background_lines(replace(ran, backups_at=AT), "restart", LOSS, AT)) == 1
    assert len(work_view.background_lines(NOBODY, "restart", replace(LOSS, late=0), AT)) == 1


def test_the_same_for_programs() -> None:
    work = BackgroundWork(1, AT, is_attended=False, monitor="h:1:aa.1.bb", backups_at=None)
    assert fleet_shapes.background(work, "none") == {
        "monitor": {"acts": "h:1:aa.1.bb", "actions": "none", "may": "only reports"},
        "workers": {"waiting": 1, "waiting_since": "2026-01-02T03:04:05+00:00", "at_work": False, "backups_at": None},
    }


def test_every_setting_of_what_the_monitor_may_do_has_words() -> None:
    assert set(fleet_shapes.MONITOR_MAY) == set(Actions)


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
    lines = work_view.operation_lines(stopped, 1)
    assert lines[0] == (
        "operation: schedule termination of dan, since 2026-01-02 03:04 UTC, has not ended and nobody works on it: "
        "hermesops operation continue 00 continues it"
    )
    assert lines[10:] == [
        "2 more: hermesops operation list names them",
        "1 operation is being worked on: hermesops operation list shows them",
    ]
    assert work_view.operation_lines([], 0) == []
