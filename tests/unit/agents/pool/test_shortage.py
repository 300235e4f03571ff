"""Rows alone tell when a pool is to be filled, and it is not tried again and again."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hermesops.agents.pool.decide import Target, is_at_rest, is_short
from hermesops.model.fleet.unassigned_machine import MachineRole, UnassignedMachine, UnassignedStatus
from hermesops.model.ids import CellName, ImageId, MachineId, MachineName, OperationId
from hermesops.model.operation import Operation, OperationKind, OperationStatus
from hermesops.model.plan import Plan
from tests.support.suite.cases import each_case

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
TARGET = Target(Plan.LIGHT, 1, "starter", ImageId("new"))
READY = UnassignedMachine(
    MachineName("a"),
    MachineRole.WARM,
    None,
    CellName("cell1"),
    Plan.LIGHT,
    "starter",
    "hel1",
    ImageId("new"),
    MachineId("m"),
    wanted=True,
    status=UnassignedStatus.READY,
    epoch=0,
    created_at=NOON,
)


@each_case(
    ("unassigned", "room", "short"),
    [
        ([], 5, True),
        ([], 0, False),
        ([READY], 5, False),
        ([READY, READY], 5, True),
        ([replace(READY, status=UnassignedStatus.PREPARING)], 5, True),
        ([replace(READY, wanted=False, status=UnassignedStatus.DRAINING)], 0, True),
        ([replace(READY, image_id=ImageId("old"))], 0, True),
        ([replace(READY, server_type="basic")], 0, True),
        ([READY, replace(READY, plan=Plan.HEAVY)], 5, True),
        ([READY, replace(READY, role=MachineRole.PREVIOUS, wanted=False)], 5, False),
    ],
)
def test_a_pool_is_filled_shrunk_or_renewed(unassigned: list[UnassignedMachine], *, room: int, short: bool) -> None:
    assert is_short([TARGET], unassigned, room=room) == short


def test_without_an_image_nothing_can_be_made_and_nothing_is_given_up() -> None:
    assert not is_short([replace(TARGET, image_id=None)], [READY], room=5)


def test_it_is_left_alone_while_somebody_is_at_it_and_for_a_while_after() -> None:
    fill = Operation(
        OperationId("op"), OperationKind.POOL_FILL, "pool/cell1", None, {}, OperationStatus.FAILED, "", "", NOON, NOON
    )
    assert is_at_rest([], NOON)
    assert not is_at_rest([fill], NOON + timedelta(minutes=9))
    assert is_at_rest([fill], NOON + timedelta(minutes=10))
    assert not is_at_rest([fill, replace(fill, status=OperationStatus.RUNNING)], NOON + timedelta(days=9))
