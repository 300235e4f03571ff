"""Outdated instances are updated without being asked, in both databases."""

from dataclasses import replace

from hermesops.agents.rollout.plan.backlog import requests_for
from hermesops.agents.rollout.plan.checks import outdated, updatable
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.rollout.records import RolloutState, TargetState
from hermesops.model.rollout.spec import Action, Spec
from hermesops.store.registry import Registry
from tests.support.real.stores.registries import placed
from tests.support.rollouts.rows import NEW, STARTED_ROW, started


def test_only_running_instances_of_no_rollout_can_be_updated(registry: Registry) -> None:
    agents = [placed(registry, user) for user in ("ada", "bob", "eve")]
    for instance in agents:
        registry.instances.set_status(instance.id, InstanceStatus.RUNNING)
    rollout = started(registry, *agents)
    for target in registry.rollout_targets.list(rollout.id):
        registry.rollout_targets.put(rollout.id, [replace(target, state=TargetState.OUTDATED)])
    registry.rollouts.change(rollout, replace(rollout, state=RolloutState.DONE), STARTED_ROW)
    registry.instances.set_status(agents[1].id, InstanceStatus.SUSPENDED)
    assert {outdated.user for outdated in outdated(registry)} == {"ada", "bob", "eve"}
    assert {outdated.user for outdated in updatable(registry)} == {"ada", "eve"}
    started(registry, agents[2], rollout_id="r2")
    outdated_instances = updatable(registry)
    assert [(outdated.user, outdated.action) for outdated in outdated_instances] == [("ada", Action.SLOT)]
    [request] = requests_for(outdated_instances, "outdated", Spec())
    assert (request.release, request.where, request.all_running, request.action) == (
        NEW,
        "user=ada",
        False,
        Action.SLOT,
    )


def test_each_release_and_image_is_a_rollout_of_its_own(registry: Registry) -> None:
    ada, bob = placed(registry, "ada"), placed(registry, "bob")
    for number, (agent, action) in enumerate(((ada, Action.SLOT), (bob, Action.MACHINE))):
        rollout = started(registry, agent, rollout_id=f"r{number}", action=action)
        [target] = registry.rollout_targets.list(rollout.id)
        registry.rollout_targets.put(rollout.id, [replace(target, state=TargetState.OUTDATED)])
        registry.rollouts.change(rollout, replace(rollout, state=RolloutState.DONE), STARTED_ROW)
    requests = requests_for(outdated(registry), "outdated", Spec())
    assert [(request.action, request.where) for request in requests] == [
        (Action.MACHINE, "user=bob"),
        (Action.SLOT, "user=ada"),
    ]
