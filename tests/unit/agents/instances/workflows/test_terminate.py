"""An instance ends fenced, destroyed and forgotten, in this order, wherever it was interrupted."""

from dataclasses import replace
from typing import Any

from hermesops.agents.instances.observation import MachineState, Observation
from hermesops.agents.instances.steps.stop_and_backup import BackUp, Fence, ProveBackup
from hermesops.agents.instances.workflows.suspend import MarkForDeletion, ShrinkCell, Suspend
from hermesops.agents.instances.workflows.terminate import (
    MarkTerminated,
    Terminate,
    TerminationState,
    decide,
)
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.operation import Done
from hermesops.store.operations.kinds.agents import Keep
from hermesops.vendor.channel import MachineGoneError
from hermesops.vendor.justavps.wire import MachineStatus
from tests.support.crash.workflow_walk import walk
from tests.support.fakes.instances import ADA, MACHINE, READY
from tests.support.suite.cases import each_case
from tests.support.worlds.one_user import MEMORY, NOTHING, SmallCells, SmallWorld

THERE = Observation(ADA, READY)
GONE = Observation(ADA, None)
UNUSED: Any = None
WORK = Terminate(ADA.id, "", False, UNUSED, UNUSED, UNUSED, UNUSED, UNUSED)


@each_case(
    ("termination_state", "step"),
    [
        (TerminationState(THERE, in_stack=True, fenced=False, reachable=True), Fence(MACHINE)),
        (TerminationState(THERE, in_stack=True, fenced=True, reachable=True), ShrinkCell()),
        (TerminationState(THERE, in_stack=True, fenced=False, reachable=False), ShrinkCell()),
        (TerminationState(THERE, in_stack=False, fenced=True, reachable=True), ShrinkCell()),
        (TerminationState(GONE, in_stack=True, fenced=False, reachable=False), ShrinkCell()),
        (TerminationState(GONE, in_stack=False, fenced=False, reachable=False), MarkTerminated()),
        (
            TerminationState(
                Observation(ADA, MachineState(MACHINE, MachineStatus.DELETED)),
                in_stack=False,
                fenced=False,
                reachable=False,
            ),
            MarkTerminated(),
        ),
    ],
)
def test_the_next_step_follows_from_what_is_seen(termination_state: TerminationState, step: object) -> None:
    chosen = decide(termination_state)
    assert chosen == step
    assert isinstance(chosen, Fence | ShrinkCell | MarkTerminated)
    assert WORK.describe(chosen, termination_state)


def test_a_terminated_instance_needs_nothing() -> None:
    ended = Observation(replace(ADA, status=InstanceStatus.TERMINATED), None)
    assert isinstance(decide(TerminationState(ended, in_stack=False, fenced=False, reachable=False)), Done)


def terminate(world: SmallWorld, *, keeps_backup: bool = True) -> Terminate:
    snapshots: Any = world
    return Terminate(
        world.instance.id,
        why="last 1",
        keeps_backup=keeps_backup,
        registry=world,
        client=world.client,
        backups=world,
        snapshots=snapshots,
        cells=SmallCells(world),
    )


WHOLE = ["Fence", "BackUp", "ProveBackup", "MarkForDeletion", "ShrinkCell", "MarkTerminated"]


async def test_nothing_goes_before_the_last_backup_is_proved() -> None:
    world = SmallWorld.lively()
    assert (await walk(lambda: terminate(world)))[:-1] == WHOLE
    assert world.kept_backups[0].state == MEMORY
    assert not world.computers
    assert world.is_revoked


async def test_a_machine_that_somebody_stopped_is_started_for_the_last_backup() -> None:
    world = SmallWorld.lively()
    await world.stop_machine(ADA, world.here().id)
    assert (await walk(lambda: terminate(world)))[:-1] == ["StartMachine", *WHOLE]
    assert [(backup.why, backup.state) for backup in world.kept_backups] == [("last 1", MEMORY)]


@each_case("after", [False, True])
@each_case("killed_at", range(len(WHOLE)))
async def test_killed_at_any_step_the_same_command_finishes_it(killed_at: int, *, after: bool) -> None:
    world = SmallWorld.lively()
    assert (await walk(lambda: terminate(world), killed_at=killed_at, after=after))[-1].endswith("is terminated")
    assert len(world.kept_backups) == 1


async def test_a_machine_whose_backup_does_not_restore_stays() -> None:
    world = SmallWorld.lively()
    world.broken_backups = True
    assert (await walk(lambda: terminate(world)))[-1].startswith("BrokenInvariantError")
    assert world.here().state == MEMORY


async def test_an_agent_that_sleeps_ends_with_the_backup_it_fell_asleep_with() -> None:
    world = SmallWorld.lively()
    suspend = Suspend(
        ADA.id, why="s", keep=Keep.STOPPED, registry=world, client=world.client, backups=world, cells=SmallCells(world)
    )
    await walk(lambda: suspend)
    steps = await walk(lambda: terminate(world))
    assert steps[:-1] == ["ProveBackup", "MarkForDeletion", "ShrinkCell", "MarkTerminated"]


async def test_a_machine_that_is_gone_without_a_backup_is_not_forgotten_in_passing() -> None:
    world = SmallWorld.lively()
    world.computers.clear()
    (output,) = await walk(lambda: terminate(world))
    assert output == "RefusedError: ada has no backup, and the agent's state would be lost"


async def test_who_never_lived_ends_without_a_backup() -> None:
    world = SmallWorld.lively()
    world.instance = replace(world.instance, status=InstanceStatus.PROVISIONING)
    world.here().owner, world.here().state, world.here().runs = None, NOTHING, False
    assert (await walk(lambda: terminate(world)))[0] == "MarkForDeletion"


class _ShrunkMeanwhile(SmallWorld):
    """Another run of the cell destroys the marked machine just when its gateway is to be stopped."""

    async def fence(self, *which: object) -> None:
        self.computers.clear()
        raise MachineGoneError(f"machine {which}: 404, Machine not found")


async def test_a_marked_machine_that_another_run_of_its_cell_destroys_is_no_failure() -> None:
    world = _ShrunkMeanwhile.lively()
    steps = await walk(lambda: terminate(world, keeps_backup=False))
    assert steps[:2] == ["MarkForDeletion", "Fence"]
    assert steps[-1].endswith("is terminated")


def test_every_step_has_its_words() -> None:
    for step in (Fence(MACHINE), BackUp(MACHINE), ProveBackup("s"), MarkForDeletion(), ShrinkCell(), MarkTerminated()):
        assert WORK.describe(step, TerminationState(GONE, in_stack=False, fenced=False, reachable=False))
