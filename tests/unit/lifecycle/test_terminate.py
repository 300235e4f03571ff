"""An instance ends fenced, destroyed and forgotten, in this order, wherever it was interrupted."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from hermesops.justavps.wire import MachineStatus
from hermesops.lifecycle.sight import MachineSeen, Sight
from hermesops.lifecycle.terminate import Ending, Fence, MarkTerminated, ShrinkCell, decide, describe
from hermesops.model.ids import CellName, InstanceId, MachineId, MachineName, UserId
from hermesops.model.instance import Instance, InstanceStatus
from hermesops.model.operation import Finished
from hermesops.model.plan import Plan

MACHINE = MachineId("m")
ROW = Instance(
    id=InstanceId("i"),
    user_id=UserId("u"),
    user_alias="ada",
    plan=Plan.LIGHT,
    status=InstanceStatus.RUNNING,
    cell=CellName("cell1"),
    machine_name=MachineName("hermes-local-cell1-0123456789ab"),
    machine_id=MACHINE,
    epoch=1,
    created_at=datetime(2026, 1, 1, tzinfo=UTC),
)
THERE = Sight(ROW, MachineSeen(MACHINE, MachineStatus.READY))
GONE = Sight(ROW, None)


@pytest.mark.parametrize(
    ("seen", "step"),
    [
        (Ending(THERE, in_stack=True, fenced=False, reachable=True), Fence(MACHINE)),
        (Ending(THERE, in_stack=True, fenced=True, reachable=True), ShrinkCell()),
        (Ending(THERE, in_stack=True, fenced=False, reachable=False), ShrinkCell()),
        (Ending(THERE, in_stack=False, fenced=True, reachable=True), ShrinkCell()),
        (Ending(GONE, in_stack=True, fenced=False, reachable=False), ShrinkCell()),
        (Ending(GONE, in_stack=False, fenced=False, reachable=False), MarkTerminated()),
        (
            Ending(
                Sight(ROW, MachineSeen(MACHINE, MachineStatus.DELETED)), in_stack=False, fenced=False, reachable=False
            ),
            MarkTerminated(),
        ),
    ],
)
def test_the_next_step_follows_from_what_is_seen(seen: Ending, step: object) -> None:
    chosen = decide(seen)
    assert chosen == step
    assert isinstance(chosen, Fence | ShrinkCell | MarkTerminated)
    assert describe(chosen, ROW)


def test_a_terminated_instance_needs_nothing() -> None:
    ended = Sight(replace(ROW, status=InstanceStatus.TERMINATED), None)
    assert isinstance(decide(Ending(ended, in_stack=False, fenced=False, reachable=False)), Finished)
