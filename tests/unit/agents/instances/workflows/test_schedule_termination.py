"""An agent that shall end is copied, the copy proved, and its termination can be cancelled."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from hermesops.agents.instances.workflows.resume import Resume
from hermesops.agents.instances.workflows.schedule_termination import ScheduleTermination
from hermesops.agents.instances.workflows.suspend import Suspend
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.store.operations.kinds.agents import Keep
from hermesops.vendor.justavps.wire import MachineStatus
from tests.support.crash.workflow_walk import walk
from tests.support.suite.cases import each_case
from tests.support.worlds.one_user import SmallCells, SmallWorld

UNTIL = datetime(2026, 1, 8, tzinfo=UTC)
WHOLE = ["Fence", "BackUp", "ProveBackup", "StopMachine", "StartGracePeriod"]
OUTCOME = "the agent of ada is suspended and will be terminated at 2026-01-08 00:00 UTC unless that is cancelled"


def farewell(world: SmallWorld, why: str = "last 1", until: datetime = UNTIL) -> ScheduleTermination:
    return ScheduleTermination(
        world.instance.id, why=why, until=until, registry=world, client=world.client, backups=world
    )


async def test_a_farewell_proves_the_last_backup_before_the_machine_is_off() -> None:
    world = SmallWorld.lively()
    assert await walk(lambda: farewell(world)) == [*WHOLE, OUTCOME]
    assert (world.instance.status, world.instance.grace_until) == (InstanceStatus.SUSPENDED, UNTIL)
    assert world.here().status is MachineStatus.STOPPED


@each_case("after", [False, True])
@each_case("killed_at", range(len(WHOLE)))
async def test_killed_at_any_step_the_same_command_finishes_it(killed_at: int, *, after: bool) -> None:
    world = SmallWorld.lively()
    assert (await walk(lambda: farewell(world), killed_at=killed_at, after=after))[-1] == OUTCOME
    assert len(world.kept_backups) == 1


async def test_who_is_had_back_remembers() -> None:
    world = SmallWorld.lively()
    await walk(lambda: farewell(world))
    assert (await walk(lambda: Resume(world.instance.id, world, world.client, world)))[-1] == (
        "the agent of ada is running"
    )
    assert world.here().runs


async def test_who_is_to_end_already_is_not_woken_and_ends_when_it_was_to() -> None:
    world = SmallWorld.lively()
    await walk(lambda: farewell(world))
    assert await walk(lambda: farewell(world, "last 2", datetime(2026, 2, 1, tzinfo=UTC))) == [OUTCOME]


@pytest.mark.parametrize("keep", Keep)
async def test_who_sleeps_is_not_woken_for_a_farewell(keep: Keep) -> None:
    world = SmallWorld.lively()
    await walk(
        lambda: Suspend(
            world.instance.id,
            why="before",
            keep=keep,
            registry=world,
            client=world.client,
            backups=world,
            cells=SmallCells(world),
        )
    )
    assert await walk(lambda: farewell(world)) == ["ProveBackup", "StartGracePeriod", OUTCOME]
    assert len(world.kept_backups) == 1


async def test_a_backup_that_does_not_restore_stops_it_with_the_machine_there() -> None:
    world = SmallWorld.lively()
    world.broken_backups = True
    steps = await walk(lambda: farewell(world))
    assert steps == [
        "Fence",
        "BackUp",
        "ProveBackup",
        "BrokenInvariantError: the last backup of ada does not prove: messages differ",
    ]
    assert world.here().status is MachineStatus.READY


async def test_what_has_ended_has_no_farewell() -> None:
    world = SmallWorld.lively()
    world.instance = replace(world.instance, status=InstanceStatus.TERMINATED)
    (output,) = await walk(lambda: farewell(world))
    assert output.startswith("RefusedError")
