"""What happened to one instance, in one order."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hermesops.agents.drift.history.changes import message_counts, timeline
from hermesops.model.access.audit import AuditEntry
from hermesops.model.ids import CellName, InstanceId, OperationId
from hermesops.model.messaging.record import Receipt
from hermesops.model.operation import Operation, OperationKind, OperationStatus, OperationStep
from hermesops.model.plan import Plan
from hermesops.model.rollout.records import Progress, RolloutId, RolloutTarget, Target, TargetState
from hermesops.model.rollout.release import ReleaseId

AT = datetime(2026, 1, 2, 3, tzinfo=UTC)
ADA = InstanceId("i")
SUBJECT = "instance/i"
RESTART = Operation(
    OperationId("o"), OperationKind.RESTART, SUBJECT, ADA, {}, OperationStatus.DONE, "start", "", AT, AT
)
TARGET = RolloutTarget(
    Target(ADA, "ada", Plan.LIGHT, CellName("cell1"), "hel1"),
    0,
    0,
    0,
    TargetState.ROLLED_BACK,
    "with the others",
    touched_at=AT + timedelta(minutes=5),
    updated_at=AT + timedelta(minutes=9),
    progress=Progress(confirmed_at=AT + timedelta(minutes=7)),
)


def at(minute: float) -> datetime:
    return AT + timedelta(minutes=minute)


def entry(number: int, minute: float, action: str = "status_changed", subject: str = SUBJECT) -> AuditEntry:
    return AuditEntry(number, at(minute), "eve@desk", action, subject, "asked", {}, {})


def test_what_a_runbook_did_is_told_in_words() -> None:
    after = {
        "runbook": "gateway-down",
        "diagnosis": [{"meaning": "it hangs", "evidence": ["gateway silent"]}],
        "steps": [
            {"step": "show", "command": ["instance", "show", "ada"], "outcome": "done", "exit_code": 0, "detail": ""},
            {"step": "restart", "command": ["x"], "outcome": "not needed", "exit_code": None, "detail": ""},
        ],
        "counts": {"a": 1, "b": []},
    }
    run = AuditEntry(1, AT, "eve@desk", "runbook_run", SUBJECT, "asked", {"counts": ["x", "y"]}, after)
    [happening] = timeline([run], [], [], [], subject=SUBJECT, since=None)
    assert happening.detail == (
        "counts x; y -> a 1; b none, runbook gateway-down, diagnosis it hangs,"
        " steps show done; restart not needed, asked"
    )


def test_an_empty_value_is_none_and_not_a_bare_name() -> None:
    check = AuditEntry(1, AT, "eve@desk", "backup_checked", SUBJECT, "", {}, {"backup": "4808d2e1", "problem": ""})
    [happening] = timeline([check], [], [], [], subject=SUBJECT, since=None)
    assert happening.detail == "backup 4808d2e1, problem none"


def test_everything_stands_in_one_order_the_newest_last() -> None:
    happenings = timeline(
        [entry(3, 8, "machine_reboot_seen", "machine/m"), entry(2, 1), entry(1, 1, "operation_opened")],
        [
            (RESTART, OperationStep(at(2), "stop", "w1", "")),
            (RESTART, OperationStep(at(3), "start", "w2", "no answer")),
        ],
        [(RolloutId("r1"), ReleaseId("new"), TARGET)],
        [(at(4), 2), (at(6), 3), (at(6.5), 3), (at(7.5), 1), (at(8.5), 0)],
        subject=SUBJECT,
        since=None,
    )
    assert [
        (happening.at, happening.who, happening.what, happening.subject, happening.detail) for happening in happenings
    ] == [
        (at(1), "eve@desk", "operation_opened", SUBJECT, "asked"),
        (at(1), "eve@desk", "status_changed", SUBJECT, "asked"),
        (at(2), "w1", "operation_step", SUBJECT, "restart: stop"),
        (at(3), "w2", "operation_step", SUBJECT, "restart: start, stopped: no answer"),
        (at(5), "", "rollout_began", "rollout/r1", "release new"),
        (at(6), "", "gateway_restart_seen", SUBJECT, "systemd's count 2 -> 3"),
        (at(7), "", "rollout_confirmed", "rollout/r1", "release new"),
        (at(7.5), "", "gateway_restart_seen", SUBJECT, "systemd's count 3 -> 1"),
        (at(8), "", "machine_reboot_seen", "machine/m", "asked"),
        (at(9), "", "rollout_rolled_back", "rollout/r1", "release new, with the others"),
    ]


def test_what_was_before_is_left_out_and_so_is_a_rollout_that_has_not_come_to_it() -> None:
    waiting = replace(TARGET, state=TargetState.WAITING, touched_at=None, progress=Progress())
    rollouts = [(RolloutId(name), ReleaseId("new"), target) for name, target in (("r1", TARGET), ("r2", waiting))]
    happenings = timeline([entry(1, 1)], [], rollouts, [], subject=SUBJECT, since=at(7))
    assert [happening.what for happening in happenings] == ["rollout_confirmed", "rollout_rolled_back"]


def test_messages_are_counted_by_the_hour_and_messenger_at_the_time_of_the_last() -> None:
    receipts = [
        Receipt(at(1), "telegram", "answered"),
        Receipt(at(2), "slack", "dead"),
        Receipt(at(59), "telegram", "queued"),
        Receipt(at(60), "telegram", "answered"),
    ]
    counts = {(each.at, each.detail) for each in message_counts(receipts, subject=SUBJECT)}
    assert counts == {
        (at(59), "telegram: 2 messages, 1 answered, 1 queued"),
        (at(2), "slack: 1 message, 1 dead"),
        (at(60), "telegram: 1 message, 1 answered"),
    }
    assert message_counts([], subject=SUBJECT) == ()
