"""A backup is made of an agent that lives, once, and nobody is told of a contradiction that is none."""

from dataclasses import replace

from hermesops.agents.instances.workflows.copies.backup import BackUp
from hermesops.model.fleet.instance import InstanceStatus
from tests.support.crash.workflow_walk import walk
from tests.support.worlds.one_user import SmallWorld


def back_up(world: SmallWorld) -> BackUp:
    return BackUp(world.instance.id, "manual 1", world.client, world)


async def test_an_agent_that_has_not_lived_is_refused_as_that() -> None:
    world = SmallWorld.lively()
    world.here().owner = None
    world.instance = replace(world.instance, status=InstanceStatus.PROVISIONING)
    assert await walk(lambda: back_up(world)) == ["RefusedError: the agent of ada has not started yet"]


async def test_a_machine_that_calls_itself_nobodys_is_a_contradiction() -> None:
    world = SmallWorld.lively()
    world.here().owner = None
    [output] = await walk(lambda: back_up(world))
    assert output.startswith("BrokenInvariantError: machine")
