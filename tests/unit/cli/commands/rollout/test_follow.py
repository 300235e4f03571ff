"""What a command that waited for a rollout's end makes of it."""

from dataclasses import replace

import pytest

from hermesops.agents.rollout.ports import Records
from hermesops.agents.rollout.reports.progress import progress_of
from hermesops.cli.commands.rollout.follow import problem_of
from hermesops.errors import HaltedError, HermesError, PartlyDoneError
from hermesops.model.ids import InstanceId
from hermesops.model.rollout.records import RolloutState, RolloutTarget, TargetState
from tests.support.rollouts.rows import AT, ROLLOUT, target_of


def targets(*states: TargetState) -> tuple[RolloutTarget, ...]:
    targets = (target_of(InstanceId(f"i{number}"), number) for number in range(len(states)))
    return tuple(replace(target, state=state) for target, state in zip(targets, states, strict=True))


def problem(state: RolloutState, *states: TargetState) -> HermesError | None:
    rollout = replace(ROLLOUT, state=state)
    rollout_progress = progress_of(Records(rollout, targets(*states)), AT)
    return problem_of(rollout, rollout_progress, expected="done")


def test_nothing_is_said_of_a_release_that_everybody_has() -> None:
    assert problem(RolloutState.DONE, TargetState.HEALTHY, TargetState.HEALTHY) is None


@pytest.mark.parametrize("missed", [TargetState.FAILED, TargetState.OUTDATED, TargetState.UNREACHABLE])
def test_a_pipeline_hears_of_one_that_was_missed(missed: TargetState) -> None:
    error = problem(RolloutState.DONE, TargetState.HEALTHY, missed)
    assert isinstance(error, PartlyDoneError)
    assert str(ROLLOUT.release) in str(error.hint)


def test_a_gate_that_halts_has_a_code_of_its_own() -> None:
    assert isinstance(problem(RolloutState.HALTED, TargetState.FAILED), HaltedError)


def test_one_that_was_ended_cannot_be_gone_on_with_but_put_back() -> None:
    error = problem(RolloutState.ABORTED, TargetState.HEALTHY)
    assert isinstance(error, PartlyDoneError)
    assert str(error.hint).startswith(f"hermesops rollback --rollout {ROLLOUT.id}")
    assert "retry" not in str(error.hint)
