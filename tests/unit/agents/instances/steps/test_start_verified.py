"""A gateway at rest is started only with the state that it was brought to rest with."""

from dataclasses import replace

import pytest

from hermesops.agents.instances.observation import Observation
from hermesops.agents.instances.steps.machine_table import AwaitMachine
from hermesops.agents.instances.steps.start_verified import Release, next_step
from hermesops.errors import BrokenInvariantError
from hermesops.model.fleet.health import NodeState
from hermesops.model.operation import Refused
from hermesops.model.recovery.state import State
from tests.support.fakes.instances import ADA, MACHINE, READY
from tests.support.worlds.one_user import MEMORY, NOTHING

AT_REST = Observation(ADA, READY, NodeState(ADA.id, 1, "digest", "0.19.0", fenced=True))


@pytest.mark.parametrize(
    ("was", "state", "step"),
    [
        (MEMORY, MEMORY, Release(MACHINE)),
        (None, None, Release(MACHINE)),
        (MEMORY, None, AwaitMachine(MACHINE)),
    ],
    ids=["the same", "never brought to rest in full", "cannot be told"],
)
def test_a_gateway_at_rest_is_started_with_what_it_had(was: State | None, state: State | None, step: object) -> None:
    assert next_step(AT_REST, payload_digest="digest", was=was, state=state) == step


def test_another_state_is_not_started() -> None:
    verdict = next_step(AT_REST, payload_digest="digest", was=MEMORY, state=NOTHING)
    assert isinstance(verdict, Refused)
    assert isinstance(verdict.error, BrokenInvariantError)
    assert verdict.error.message == "the state of ada changed while the gateway was stopped: " + "; ".join(
        MEMORY.differences(NOTHING)
    )


def test_a_fence_on_anothers_machine_is_not_taken_away() -> None:
    assert AT_REST.node
    theirs = replace(AT_REST, node=replace(AT_REST.node, instance_id=None))
    assert isinstance(next_step(theirs, payload_digest="digest", was=MEMORY, state=MEMORY), Refused)
