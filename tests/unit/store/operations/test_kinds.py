"""Every kind says what it is to do, comes back from its row as it was written, and is refused in any other shape."""

import json
from dataclasses import fields, replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from hermesops.errors import BrokenInvariantError
from hermesops.model.ids import CellName, ImageId, InstanceId, MachineName, OperationId
from hermesops.model.operation import Operation, OperationKind, OperationStatus
from hermesops.model.plan import Plan
from hermesops.model.rollout.records import RolloutId
from hermesops.model.rollout.release import ReleaseId
from hermesops.store.operations.intent import Intent
from hermesops.store.operations.kinds.agents import (
    ApprovedList,
    ConfigureIntent,
    Keep,
    PlanSize,
    ProvisionIntent,
    RebootIntent,
    RelocateIntent,
    ResizeIntent,
    RestartIntent,
    ResumeIntent,
    ScheduleTerminationIntent,
    SuspendIntent,
    TerminateIntent,
)
from hermesops.store.operations.kinds.copies import BackupIntent, DrillIntent, RestoreIntent, SnapshotIntent
from hermesops.store.operations.kinds.fleet import JobRunIntent, PoolFillIntent, RolloutIntent, StackUpIntent
from hermesops.store.operations.kinds.instance_intent import InstanceIntent
from hermesops.store.operations.kinds.table import KINDS
from tests.support.suite.cases import each_case

AT = datetime(2026, 1, 1, 12, 30, tzinfo=UTC)
CELL, MACHINE = CellName("cell1"), MachineName("hermes-local-cell1-0")
APPROVED = ApprovedList("list", "approval")
RELOCATE = RelocateIntent(
    user="ada", reason="r", origin=MACHINE, cell=CELL, region="hel1", plan=Plan.HEAVY, server_type="basic"
)
EXAMPLES: tuple[Intent, ...] = (
    ProvisionIntent(user="ada", plan=Plan.LIGHT, machine_name=MACHINE),
    ProvisionIntent(user="ada", plan=Plan.LIGHT, machine_name=MACHINE, reason="r"),
    TerminateIntent(user="ada", machine_name=MACHINE, reason="", keeps_backup=True),
    TerminateIntent(user="ada", machine_name=MACHINE, reason="", keeps_backup=False, approved=APPROVED),
    RestartIntent(user="ada", before="start-1"),
    RebootIntent(user="ada", reason="r"),
    ConfigureIntent(user="ada", reason="r", changed=("model",), settings={"model": "m", "mcp_servers": ["one"]}),
    SuspendIntent(user="ada", reason="r", keep=Keep.REMOVED),
    ResumeIntent(user="ada", reason="r"),
    ResizeIntent(user="ada", reason="r", before=PlanSize(Plan.LIGHT, "starter"), after=PlanSize(Plan.HEAVY, "basic")),
    RELOCATE,
    replace(
        RELOCATE, image_id=ImageId("i"), only_plan=Plan.HEAVY, snapshot="s", keeps_previous=True, approved=APPROVED
    ),
    ScheduleTerminationIntent(user="ada", reason="r", until=AT),
    BackupIntent(user="ada", why="daily"),
    BackupIntent(user="ada", why="manual", reason="r"),
    RestoreIntent(user="ada", reason="r", snapshot="s", keeps=False),
    SnapshotIntent(user="ada", reason="r"),
    DrillIntent(user="ada", instance=InstanceId("i"), snapshot="s", why="weekly"),
    StackUpIntent(cell=CELL),
    StackUpIntent(cell=CELL, only=frozenset({MACHINE}), named=frozenset({MACHINE}), share=0.5, budget=Decimal("9.50")),
    StackUpIntent(cell=CELL, share=1, reason="r"),
    PoolFillIntent(cell=CELL, grow=True),
    PoolFillIntent(cell=CELL, grow=False, reason="r"),
    JobRunIntent(job="pools", reason="r"),
    RolloutIntent(rollout=RolloutId("r"), release=ReleaseId("0.19.0")),
)


def row(kind: OperationKind, intent: dict[str, object]) -> Operation:
    return Operation(OperationId("op"), kind, "s", None, intent, OperationStatus.PENDING, "", "", AT, AT)


def test_every_kind_is_declared_once_and_has_an_example() -> None:
    assert set(KINDS) == set(OperationKind)
    assert {type(intent) for intent in EXAMPLES} == set(KINDS.values())
    assert len({intent.title for intent in KINDS.values()}) == len(KINDS)


@each_case("intent", EXAMPLES, ids=lambda intent_kind: intent_kind.kind)
def test_it_comes_back_from_its_row_as_it_was_written(intent: Intent) -> None:
    assert type(intent).of(row(intent.kind, json.loads(json.dumps(intent.to_json())))) == intent


@each_case("intent", EXAMPLES, ids=lambda intent_kind: intent_kind.kind)
def test_any_other_shape_is_refused(intent: Intent) -> None:
    document = intent.to_json()
    shapes: list[dict[str, object]] = [{**document, "unknown": 1}]
    shapes += [{**document, field.name: object()} for field in fields(intent) if field.name in document]
    shapes += [
        {n: v for n, v in document.items() if n != name} for name in ("user", "cell", "rollout") if name in document
    ]
    for shape in shapes:
        with pytest.raises(BrokenInvariantError, match="has an unreadable intent"):
            type(intent).of(row(intent.kind, shape))


@pytest.mark.parametrize(
    ("shape", "says"),
    [
        ({"user": "ada", "reason": "r", "keep": "burnt"}, "suspend.keep is no Keep"),
        ({"user": "ada", "reason": True, "keep": "stopped"}, "suspend.reason is no str"),
        ({"user": "ada", "keep": "stopped"}, "suspend.reason is missing"),
        ({"user": "ada", "reason": "r", "keep": "stopped", "by": ""}, "suspend has unknown by"),
    ],
)
def test_a_shape_that_is_refused_is_named(shape: dict[str, object], says: str) -> None:
    with pytest.raises(BrokenInvariantError, match=says):
        SuspendIntent.of(row(OperationKind.SUSPEND, shape))


@pytest.mark.parametrize(
    "intent_fields", [{"cell": "c", "grow": 1}, {"cell": "c", "grow": "true"}, {"cell": 3, "grow": True}]
)
def test_a_number_is_no_answer_to_yes_or_no(intent_fields: dict[str, object]) -> None:
    with pytest.raises(BrokenInvariantError, match="pool_fill"):
        PoolFillIntent.of(row(OperationKind.POOL_FILL, intent_fields))


def test_a_row_of_another_kind_is_refused() -> None:
    with pytest.raises(BrokenInvariantError, match="of kind resume, not suspend"):
        SuspendIntent.of(row(OperationKind.RESUME, {"user": "ada", "reason": "r"}))


def test_the_kinds_that_need_an_instance_are_those_of_instances() -> None:
    assert {kind for kind in KINDS if kind.needs_instance} == {
        kind for kind, intent in KINDS.items() if issubclass(intent, InstanceIntent)
    }
