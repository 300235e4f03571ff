"""What an operator reads while a rollout goes on."""

from dataclasses import replace

import pytest

from hermesops.agents.rollout.ports import Records
from hermesops.agents.rollout.records.events import Recorded, StateChanged
from hermesops.agents.rollout.reports.progress import change_lines, narrate, progress_line
from hermesops.agents.rollout.steps.actions import (
    Change,
    Decision,
    DeployTargets,
    Notify,
    RollBackTargets,
    Step,
    UpdateTargets,
    Wait,
)
from hermesops.agents.rollout.steps.observation import RolloutObservation
from hermesops.agents.rollout.target_names import names
from hermesops.model.ids import InstanceId
from hermesops.model.rollout.records import Progress, RolloutState, RolloutTarget, TargetState
from tests.support.rollouts.rows import AT, NEW, ROLLOUT, target_of
from tests.support.suite.cases import each_case


def target(user: str, state: TargetState = TargetState.WAITING, *, stage: int = 0, batch: int = 0) -> RolloutTarget:
    target = target_of(InstanceId(user), stage=stage)
    return replace(target, facts=replace(target.facts, user=user), state=state, batch=batch)


ADA = target("ada", TargetState.HEALTHY)
BOB = target("bob", TargetState.SOAKING, stage=1)
EVE = target("eve", stage=1, batch=1)
MAX = target("max", stage=1, batch=1)
TARGETS = (ADA, BOB, EVE, MAX, *(target(f"u{number}", stage=2) for number in range(6)))
HALTED = StateChanged(RolloutState.RUNNING, RolloutState.HALTED)


def told(step: Step, why: str = "because") -> str:
    return narrate(Decision(step, why), RolloutObservation(AT, Records(ROLLOUT, TARGETS)))


@each_case(
    ("step", "line"),
    [
        (DeployTargets((EVE, MAX)), f"stage 2/3, batch 2/2, 1 of 10 healthy: deploy {NEW} to eve, max"),
        (DeployTargets(TARGETS[4:]), f"stage 3/3, batch 1/1, 1 of 10 healthy: deploy {NEW} to u0, u1, u2 and 3 more"),
        (
            DeployTargets((replace(EVE, state=TargetState.ACTIVATING),)),
            "stage 2/3, batch 2/2, 1 of 10 healthy: finish the change of eve",
        ),
        (RollBackTargets((ADA, BOB), 1), "stage 2/3, batch 1/2, 1 of 10 healthy: roll back ada, bob"),
        (
            UpdateTargets((replace(BOB, state=TargetState.HEALTHY),)),
            "stage 2/3, batch 1/2, 2 of 10 healthy: bob is healthy",
        ),
        (
            UpdateTargets((replace(BOB, state=TargetState.FAILED, detail="turn_latency 8.2 times"),)),
            "stage 2/3, batch 1/2, 1 of 10 healthy, 1 failed: bob failed: turn_latency 8.2 times",
        ),
        (
            Change(RolloutState.ROLLING_BACK),
            "stage 2/3, batch 1/2, 1 of 10 healthy: the rollout is rolling back: because",
        ),
        (Notify(Recorded(AT, HALTED)), "stage 2/3, batch 1/2, 1 of 10 healthy: because"),
        (Wait(10), "stage 2/3, batch 1/2, 1 of 10 healthy: because"),
    ],
)
def test_a_step_is_told_with_how_far_who_and_what(step: Step, line: str) -> None:
    assert told(step) == line


def test_a_rollout_that_touched_nobody_has_not_started() -> None:
    assert progress_line([EVE, MAX]) == "not started, 0 of 2 healthy"


def test_those_of_one_state_share_a_line_and_reasons_part_them() -> None:
    failed = replace(EVE, state=TargetState.FAILED, detail="checks: turn: 500")
    silent = replace(MAX, state=TargetState.SOAKING, progress=Progress(unwell_since=AT))
    other = replace(ADA, state=TargetState.SOAKING)
    assert change_lines([BOB, other, failed, silent]) == [
        "bob, ada are soaking",
        "eve failed: checks: turn: 500",
        "max is soaking: its gateway does not answer",
    ]


@pytest.mark.parametrize(
    ("count", "message"),
    [(1, "u0"), (4, "u0, u1, u2, u3"), (5, "u0, u1, u2 and 2 more"), (60, "u0, u1, u2 and 57 more")],
)
def test_few_are_named_and_the_rest_counted(count: int, message: str) -> None:
    assert names([target(f"u{number}") for number in range(count)]) == message
