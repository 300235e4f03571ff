"""An instance ends fenced, destroyed and forgotten, in this order, wherever it was interrupted."""

from dataclasses import replace

import pytest

from hermesops.justavps.wire import MachineStatus
from hermesops.lifecycle.sight import MachineSeen, Sight
from hermesops.lifecycle.terminate import Ending, Fence, MarkTerminated, ShrinkCell, decide, describe
from hermesops.model.instance import InstanceStatus
from hermesops.model.operation import Finished
from tests.support.instances import ADA, MACHINE, READY

THERE = Sight(ADA, READY)
GONE = Sight(ADA, None)


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
                Sight(ADA, MachineSeen(MACHINE, MachineStatus.DELETED)), in_stack=False, fenced=False, reachable=False
            ),
            MarkTerminated(),
        ),
    ],
)
def test_the_next_step_follows_from_what_is_seen(seen: Ending, step: object) -> None:
    chosen = decide(seen)
    assert chosen == step
    assert isinstance(chosen, Fence | ShrinkCell | MarkTerminated)
    assert describe(chosen, ADA)


def test_a_terminated_instance_needs_nothing() -> None:
    ended = Sight(replace(ADA, status=InstanceStatus.TERMINATED), None)
    assert isinstance(decide(Ending(ended, in_stack=False, fenced=False, reachable=False)), Finished)
