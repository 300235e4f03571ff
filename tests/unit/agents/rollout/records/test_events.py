"""Events of rollouts outlive the code that wrote them: their stored names and keys are pinned here."""

import json
from datetime import UTC, datetime
from typing import get_args

import pytest

from hermesops.agents.rollout.records.events import (
    STORED_NAMES,
    BatchBegun,
    BatchEnded,
    CommandGiven,
    DrillEnded,
    Event,
    GateAnswered,
    Notified,
    Recorded,
    RollbackBegun,
    RolloutStarted,
    StateChanged,
    TargetOutcome,
    TargetsUpdated,
    WaitBegun,
    WorldPurged,
    from_row,
    instances_of,
    to_row,
)
from hermesops.errors import BrokenInvariantError
from hermesops.model.ids import InstanceId
from hermesops.model.rollout.records import GateResult, RolloutEvent, RolloutState, TargetState
from tests.support.suite.cases import each_case

AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
ADA, BOB = InstanceId("ada"), InstanceId("bob")
STORED: list[tuple[Event, str, dict[str, object]]] = [
    (
        RolloutStarted("newer", "ada@desk", "0.19.0-x", "plan=light", "slot"),
        "start",
        {"why": "newer", "who": "ada@desk", "release": "0.19.0-x", "where": "plan=light", "action": "slot"},
    ),
    (
        StateChanged(RolloutState.PENDING, RolloutState.RUNNING, "newer"),
        "state",
        {"from": "pending", "to": "running", "why": "newer"},
    ),
    (
        StateChanged(RolloutState.HALTED, RolloutState.RUNNING, "fixed", "ada@desk", "retry", targets=(ADA, BOB)),
        "state",
        {
            "from": "halted",
            "to": "running",
            "why": "fixed",
            "who": "ada@desk",
            "verb": "retry",
            "targets": ["ada", "bob"],
        },
    ),
    (
        CommandGiven(RolloutState.HALTED, "fine", "bob@desk", "approve", approved=2),
        "command",
        {"state": "halted", "why": "fine", "who": "bob@desk", "verb": "approve", "approved": 2},
    ),
    (
        CommandGiven(RolloutState.RUNNING, "fine", "bob@desk", "promote", promoted=1),
        "command",
        {"state": "running", "why": "fine", "who": "bob@desk", "verb": "promote", "promoted": 1},
    ),
    (TargetsUpdated("1 healthy", (ADA,)), "update_targets", {"why": "1 healthy", "targets": ["ada"]}),
    (BatchBegun("batch 1", (ADA, BOB)), "deploy_targets", {"why": "batch 1", "targets": ["ada", "bob"]}),
    (
        BatchEnded((TargetOutcome(ADA, 1, 2, TargetState.FAILED, "checks: turn"),)),
        "deployed",
        {"targets": [{"instance": "ada", "stage": 1, "batch": 2, "state": "failed", "detail": "checks: turn"}]},
    ),
    (RollbackBegun("roll back 1", (BOB,)), "roll_back_targets", {"why": "roll back 1", "targets": ["bob"]}),
    (
        DrillEnded(GateResult.NOT_EXERCISED, "first", "no machine"),
        "drill",
        {"result": "not_exercised", "why": "first", "detail": "no machine"},
    ),
    (
        GateAnswered("billing", GateResult.PASS, 2, "ask", "fine"),
        "hook:billing",
        {"gate": "billing", "result": "pass", "stage": 2, "why": "ask", "detail": "fine"},
    ),
    (WaitBegun("soaks"), "wait", {"why": "soaks"}),
    (Notified(7, "it answered 500"), "notify", {"of": 7, "problem": "it answered 500"}),
    (WorldPurged("purged"), "abort", {"why": "purged"}),
]


@each_case(("event", "name", "decision"), STORED, ids=[row[1] for row in STORED])
def test_an_event_keeps_its_stored_name_and_keys_and_is_read_back_as_it_was(
    event: Event, name: str, decision: dict[str, object]
) -> None:
    recorded = Recorded(AT, event, {"failures": {"touched": 3}}, id=5)
    row = to_row(recorded)
    assert (row.kind, json.loads(json.dumps(row.decision)), row.evidence, row.id) == (
        name,
        decision,
        recorded.evidence,
        5,
    )
    assert from_row(RolloutEvent(AT, name, decision, row.evidence, 5)) == recorded


def test_every_event_is_pinned_and_no_two_share_a_name() -> None:
    assert set(STORED_NAMES) == set(get_args(Event)) == {type(event) for event, _, _ in STORED}
    assert len(set(STORED_NAMES.values())) == len(STORED_NAMES)


def test_what_has_its_default_is_left_out_and_read_as_such() -> None:
    assert to_row(Recorded(AT, BatchEnded())).decision == {}
    assert from_row(RolloutEvent(AT, "notify", {"of": 1}, {})).event == Notified(1)


def test_a_gate_with_a_long_name_fits_the_column_and_keeps_its_name() -> None:
    row = to_row(Recorded(AT, GateAnswered("x" * 40, GateResult.FAIL, 1)))
    assert len(row.kind) == 32
    assert from_row(row).event == GateAnswered("x" * 40, GateResult.FAIL, 1)


@pytest.mark.parametrize(
    ("kind", "decision"),
    [("halt", {"why": "two failed"}), ("notify", {}), ("state", {"from": "pending", "to": "nowhere"})],
)
def test_a_row_that_nobody_writes_is_an_error(kind: str, decision: dict[str, object]) -> None:
    with pytest.raises(BrokenInvariantError, match=f"event 3 of a rollout, {kind}, cannot be read"):
        from_row(RolloutEvent(AT, kind, decision, {}, 3))


def test_an_event_names_the_instances_that_it_is_about() -> None:
    assert instances_of(BatchBegun("", (ADA, BOB))) == {ADA, BOB}
    assert instances_of(BatchEnded((TargetOutcome(ADA, 0, 0, TargetState.SOAKING, ""),))) == {ADA}
    assert instances_of(WaitBegun("soaks")) == frozenset()
