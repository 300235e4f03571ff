"""An agent is suspended and resumed with its state, wherever either was killed."""

from dataclasses import replace

import pytest

from hermesops.agents.instances.refusals import state_changed
from hermesops.agents.instances.workflows.resume import Resume
from hermesops.agents.instances.workflows.suspend import MarkForDeletion, ShrinkCell, Suspend
from hermesops.errors import UnavailableError
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.ids import MachineId
from hermesops.model.recovery.backup import Backup
from hermesops.model.recovery.state import Part, State
from hermesops.store.operations.kinds.agents import Keep
from hermesops.vendor.justavps.wire import MachineStatus
from tests.support.crash.workflow_walk import walk
from tests.support.suite.cases import each_case
from tests.support.worlds.one_user import MEMORY, SmallCells, SmallWorld

WHY = "before suspend 1"


def suspend(world: SmallWorld, keep: Keep = Keep.STOPPED, why: str = WHY) -> Suspend:
    return Suspend(
        world.instance.id,
        why=why,
        keep=keep,
        registry=world,
        client=world.client,
        backups=world,
        cells=SmallCells(world),
    )


def resume(world: SmallWorld) -> Resume:
    return Resume(world.instance.id, world, world.client, world)


async def test_an_agent_sleeps_on_a_stopped_machine_and_wakes_on_it() -> None:
    world = SmallWorld.lively()
    assert await walk(lambda: suspend(world)) == [
        "Fence",
        "BackUp",
        "StopMachine",
        "MarkSuspended",
        "the agent of ada is suspended, its machine is stopped",
    ]
    assert world.here().status is MachineStatus.STOPPED
    assert world.instance.status is InstanceStatus.SUSPENDED
    assert await walk(lambda: resume(world)) == [
        "StartMachine",
        "Release",
        "MarkRunning",
        "the agent of ada is running",
    ]
    assert world.here().runs
    assert world.here().state == MEMORY


async def test_a_machine_is_given_back_only_with_its_state_copied() -> None:
    world = SmallWorld.lively()
    steps = await walk(lambda: suspend(world, Keep.REMOVED))
    assert steps[:-1] == ["Fence", "BackUp", "MarkForDeletion", "ShrinkCell", "MarkSuspended"]
    assert not world.computers
    assert world.kept_backups[0].state == MEMORY


@each_case("keep", Keep)
@each_case("after", [False, True])
@each_case("killed_at", range(5))
async def test_killed_at_any_step_the_same_command_finishes_it(keep: Keep, killed_at: int, *, after: bool) -> None:
    world = SmallWorld.lively()
    outcome = (await walk(lambda: suspend(world, keep), killed_at=killed_at, after=after))[-1]
    assert outcome == f"the agent of ada is suspended, its machine is {keep}"
    assert len(world.kept_backups) == 1
    if keep is Keep.STOPPED:
        assert (await walk(lambda: resume(world), killed_at=killed_at, after=after))[-1].startswith("the agent of ada")
        assert world.here().runs


@pytest.mark.parametrize("keep", Keep)
async def test_a_machine_that_somebody_stopped_is_started_to_be_copied(keep: Keep) -> None:
    world = SmallWorld.lively()
    await world.stop_machine(world.instance, world.here().id)
    steps = await walk(lambda: suspend(world, keep))
    assert steps[:3] == ["StartMachine", "Fence", "BackUp"]
    assert [(backup.why, backup.state) for backup in world.kept_backups] == [(WHY, MEMORY)]


@pytest.mark.parametrize("keep", Keep)
async def test_who_sleeps_is_not_woken_to_be_put_to_sleep(keep: Keep) -> None:
    world = SmallWorld.lively()
    outcome = (await walk(lambda: suspend(world, keep)))[-1]
    assert await walk(lambda: suspend(world, keep, why="before suspend 2")) == [outcome]


async def test_the_kept_machine_of_a_sleeper_can_be_given_back() -> None:
    world = SmallWorld.lively()
    await walk(lambda: suspend(world))
    steps = await walk(lambda: suspend(world, Keep.REMOVED, why="before suspend 2"))
    assert steps[-3:] == ["MarkForDeletion", "ShrinkCell", "the agent of ada is suspended, its machine is removed"]
    assert not world.computers


async def test_each_step_that_removes_a_machine_is_narrated_in_its_own_words() -> None:
    world = SmallWorld.lively()
    work, state = suspend(world, Keep.REMOVED), await suspend(world).observe()
    machine = world.instance.machine_name
    assert [work.describe(step, state) for step in (MarkForDeletion(), ShrinkCell())] == [
        f"marking machine {machine} for removal",
        f"destroying machine {machine}",
    ]


async def test_a_state_that_changed_in_its_sleep_is_not_started() -> None:
    world = SmallWorld.lively()
    await walk(lambda: suspend(world))
    world.here().state = State({"messages": Part(6, "6" * 64)})
    steps = await walk(lambda: resume(world))
    changes = "messages: 7 (777777777777), now 6 (666666666666)"
    assert steps == [
        "StartMachine",
        f"BrokenInvariantError: the state of ada changed while the gateway was stopped: {changes}",
    ]
    assert not world.here().runs


def test_exit_70_says_how_to_go_on() -> None:
    error = state_changed(SmallWorld.lively().instance, ("messages",))
    abandoned, _, restored = str(error.hint).partition(", then ")
    assert "hermesops operation abandon ID --reason" in abandoned, "while it is unfinished a restore is refused"
    assert restored == "hermesops backup restore ada --onto-new-machine"


async def test_an_agent_that_never_lived_is_not_put_to_sleep() -> None:
    world = SmallWorld.lively()
    world.instance = replace(world.instance, status=InstanceStatus.PROVISIONING)
    assert await walk(lambda: suspend(world)) == ["RefusedError: the agent of ada has not started yet"]


async def test_a_silent_machine_is_not_switched_off_without_a_copy() -> None:
    world = SmallWorld.lively()
    world.here().answers = False
    (output,) = await walk(lambda: suspend(world))
    assert output.startswith("UnavailableError")
    assert world.here().status is MachineStatus.READY


async def test_where_no_copy_can_be_made_the_user_keeps_the_agent() -> None:
    world = SmallWorld.lively()
    world.store_is_gone = True
    with pytest.raises(UnavailableError, match="object store does not answer"):
        await walk(lambda: suspend(world))
    assert world.here().runs


@pytest.mark.parametrize("keep", Keep)
async def test_while_no_copy_comes_about_the_agent_lives_and_what_it_learns_is_in_the_next(keep: Keep) -> None:
    world = SmallWorld.lively()
    world.store_goes = True
    for _ in range(3):
        with pytest.raises(UnavailableError, match="object store does not answer"):
            await walk(lambda: suspend(world, keep))
        assert world.here().runs
    world.store_goes = False
    assert (await walk(lambda: suspend(world, keep)))[:2] == ["Fence", "BackUp"]
    assert world.kept_backups[0].state == MEMORY


async def test_what_is_copied_stays_at_rest_although_that_was_not_heard() -> None:
    world = SmallWorld.lively()

    async def unheard(instance: Instance, machine_id: MachineId, *, why: str) -> Backup:
        await SmallWorld.make(world, instance, machine_id, why=why)
        raise UnavailableError("the registry went away")

    world.make = unheard  # type: ignore[method-assign]
    with pytest.raises(UnavailableError, match="the registry went away"):
        await walk(lambda: suspend(world, Keep.REMOVED))
    assert not world.here().runs
    del world.make
    assert (await walk(lambda: suspend(world, Keep.REMOVED)))[0] == "MarkForDeletion"


async def test_a_sleep_that_was_given_up_halfway_ends_with_a_living_agent() -> None:
    world = SmallWorld.lively()
    await world.fence(world.instance, world.here().id)
    assert (await walk(lambda: resume(world)))[-1] == "the agent of ada is running"
    assert world.here().runs


async def test_killed_between_taking_the_fence_away_and_starting_the_gateway_it_wakes_all_the_same() -> None:
    world = SmallWorld.lively()
    await walk(lambda: suspend(world))
    await walk(lambda: resume(world))
    world.here().runs = False
    world.instances_set_status(world.instance.id, InstanceStatus.SUSPENDED)
    assert (await walk(lambda: resume(world)))[-1] == "the agent of ada is running"
    assert world.here().runs
