"""What a request for a rollout means."""

from dataclasses import replace

import pytest

from hermesops.agents.rollout.plan.requests import Fleet, RolloutRequest, find_overlapping, find_same, running_targets
from hermesops.errors import UsageError
from hermesops.model.ids import InstanceId
from hermesops.model.rollout.records import RolloutId
from hermesops.model.rollout.spec import Action, DrillPolicy, Spec
from tests.support.rollouts.instances import instance
from tests.support.rollouts.rows import NEW, OLD, ROLLOUT

ALL = RolloutRequest(NEW, "", all_running=True, spec=Spec(), action=Action.SLOT, reason="")
RUNNING = running_targets(Fleet((instance("ada"), instance("bob"))))


def test_a_request_for_all_takes_all_and_one_with_a_selector_some() -> None:
    assert ALL.select(RUNNING) == RUNNING
    assert [target.user for target in replace(ALL, where="user=bob").select(RUNNING)] == ["bob"]


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (replace(ALL, all_running=False), "no instances are chosen"),
        (replace(ALL, where="mood=good"), "no field 'mood'"),
        (replace(ALL, where="user=eve"), "no running instance matches 'user=eve'"),
    ],
)
def test_a_request_that_means_nobody_is_refused(request_: RolloutRequest, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        request_.select(RUNNING)


def test_a_request_for_all_of_an_empty_fleet_is_refused() -> None:
    with pytest.raises(UsageError, match="no instance is running"):
        ALL.select(())


@pytest.mark.parametrize(
    ("chosen", "action", "pool", "drill"),
    [
        (DrillPolicy.REQUIRED, Action.SLOT, True, DrillPolicy.REQUIRED),
        (DrillPolicy.REQUIRED, Action.SLOT, False, DrillPolicy.IF_POSSIBLE),
        (DrillPolicy.REQUIRED, Action.MACHINE, True, DrillPolicy.IF_POSSIBLE),
        (DrillPolicy.NO, Action.SLOT, False, DrillPolicy.NO),
    ],
)
def test_a_rehearsal_is_required_only_where_a_pool_can_hold_it(
    chosen: DrillPolicy,
    action: Action,
    pool: bool,  # noqa: FBT001 - a table
    drill: DrillPolicy,
) -> None:
    request = replace(ALL, spec=Spec(drill=chosen), action=action)
    assert request.spec_with(pool=pool) == Spec(drill=drill)


def test_the_same_request_finds_its_rollout_and_another_one_does_not() -> None:
    unfinished = [(replace(ROLLOUT, id=RolloutId("r0")), "plan=light"), (ROLLOUT, "")]
    assert find_same(unfinished, NEW, ALL) == ROLLOUT
    assert find_same(unfinished, OLD, ALL) is None
    assert find_same(unfinished, NEW, replace(ALL, where="user=ada")) is None
    assert find_same(unfinished, NEW, replace(ALL, action=Action.MACHINE)) is None


def test_a_rollout_that_has_one_of_the_targets_is_ahead() -> None:
    assert find_overlapping([(ROLLOUT, [InstanceId("eve"), InstanceId("bob")])], RUNNING) == ROLLOUT
    assert find_overlapping([(ROLLOUT, [InstanceId("eve")])], RUNNING) is None
