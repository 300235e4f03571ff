"""Which instances are outdated, and the rollouts that update them."""

from dataclasses import replace
from datetime import timedelta

from hermesops.agents.rollout.plan.backlog import (
    OutdatedInstance,
    last_done,
    late_instances,
    missed_instances,
    requests_for,
    updatable,
)
from hermesops.agents.rollout.plan.requests import Fleet
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import InstanceId
from hermesops.model.rollout.records import RolloutId, RolloutState
from hermesops.model.rollout.spec import Action, Spec
from tests.support.rollouts.instances import instance
from tests.support.rollouts.rows import AT, NEW, OLD, ROLLOUT, target_of

LATER = AT + timedelta(hours=1)


def outdated(user: str, action: Action = Action.SLOT) -> OutdatedInstance:
    return OutdatedInstance(InstanceId(user), user, NEW, RolloutId("r1"), action, "unreachable", AT)


def test_a_target_that_was_missed_keeps_the_reason() -> None:
    target = replace(target_of(InstanceId("ada")), detail="unreachable: no answer", updated_at=AT)
    [missed] = missed_instances([(ROLLOUT.id, NEW, target)], {ROLLOUT.id: Action.SLOT})
    assert missed == replace(outdated("ada"), why="unreachable: no answer")
    [unexplained] = missed_instances([(ROLLOUT.id, NEW, replace(target, detail=""))], {ROLLOUT.id: Action.SLOT})
    assert unexplained.why == "not deployed"


def test_the_last_rollout_is_the_newest_of_a_release_that_is_done() -> None:
    done = replace(ROLLOUT, state=RolloutState.DONE)
    aborted, machines = replace(ROLLOUT, state=RolloutState.ABORTED), replace(done, action=Action.MACHINE)
    assert last_done([ROLLOUT, aborted, machines, done, replace(done, id=RolloutId("r0"))]) == done
    assert last_done([ROLLOUT]) is None


def test_instances_that_came_after_a_rollout_are_outdated_unless_they_run_its_release() -> None:
    fleet = Fleet(
        (
            instance("before"),
            instance("late", created_at=LATER),
            instance("current", created_at=LATER),
            instance("busy", created_at=LATER),
            instance("elsewhere", created_at=LATER, cell="cell2"),
            instance("suspended", created_at=LATER, status=InstanceStatus.SUSPENDED),
        ),
        releases={InstanceId("late"): OLD, InstanceId("current"): NEW},
        busy=frozenset({InstanceId("busy")}),
    )
    [late] = late_instances(ROLLOUT, f"cell=cell1,release={NEW}", fleet)
    assert (late.user, late.release, late.rollout, late.since) == ("late", NEW, ROLLOUT.id, LATER)
    assert late.why == f"came after it, and runs {OLD}"


def test_running_instances_of_no_rollout_can_be_updated() -> None:
    fleet = Fleet(
        (instance("ada"), instance("bob", status=InstanceStatus.SUSPENDED), instance("eve")),
        busy=frozenset({InstanceId("eve")}),
    )
    assert updatable([outdated("ada"), outdated("bob"), outdated("eve")], fleet) == (outdated("ada"),)


def test_each_release_and_image_is_requested_on_its_own() -> None:
    outdated_instances = [outdated("ada"), outdated("bob", Action.MACHINE), outdated("eve")]
    requests = requests_for(outdated_instances, "outdated", Spec())
    assert [(request.action, request.where, request.reason) for request in requests] == [
        (Action.MACHINE, "user=bob", "outdated"),
        (Action.SLOT, "user=ada,user=eve", "outdated"),
    ]
