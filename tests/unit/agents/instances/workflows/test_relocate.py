"""An instance changes its machine with its memory, never with two gateways, wherever that was killed."""

import json
from dataclasses import replace

import pytest

from hermesops.agents.instances.observation import MachineState, Observation
from hermesops.agents.instances.steps.new_machine import ReplacementState
from hermesops.agents.instances.workflows.relocate import CutOver, Prepare, Relocate, RelocationState, decide
from hermesops.agents.instances.workflows.suspend import Suspend
from hermesops.errors import UnavailableError
from hermesops.model.access.certificate import MachineNames
from hermesops.model.fleet.health import NodeState
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import CellName, MachineId
from hermesops.model.plan import Plan
from hermesops.model.recovery.backup import Backup
from hermesops.store.operations.kinds.agents import Keep, RelocateIntent
from hermesops.vendor.justavps.wire import MachineStatus
from tests.support.crash.workflow_walk import walk
from tests.support.fakes.instances import ADA, READY
from tests.support.fleets.in_memory import pooled
from tests.support.suite.cases import each_case
from tests.support.worlds.one_user import AT, MEMORY, NOTHING, SmallCells, SmallReleases, SmallWorld

NEXT = MachineId("next")
OURS = NodeState(ADA.id, 1, "digest", "image", fenced=True)
COPIED = Backup("copied", ADA.id, AT, "before move 1", 1, 1, MEMORY)
MOVE = RelocateIntent(
    user="ada",
    reason="asked",
    origin=ADA.machine_name,
    cell=CellName("cell2"),
    region="hel1",
    plan=Plan.HEAVY,
    server_type="basic",
)
WHOLE = [
    "OrderReplacement",
    "GrowCell",
    "RecordReplacement",
    "Fence",
    "BackUp",
    "Prepare",
    "RestoreBackup",
    "CutOver",
    "Release",
    "Retire",
    "ShrinkCell",
    "Forget",
]


def relocate(world: SmallWorld, request: RelocateIntent = MOVE, kept: frozenset[str] = frozenset()) -> Relocate:
    releases = SmallReleases(world, kept)
    return Relocate(
        world.instance.id,
        request,
        why="before move 1",
        registry=world,
        client=world.client,
        backups=world,
        cells=SmallCells(world),
        releases=releases,
    )


async def test_a_move_takes_the_memory_along() -> None:
    world = SmallWorld.lively()
    steps = await walk(lambda: relocate(world))
    assert steps == [*WHOLE, "the agent of ada is on hermes-local-cell2-next with 7 messages"]
    assert list(world.computers) == ["hermes-local-cell2-next"]
    assert (world.instance.cell, world.instance.plan, world.instance.epoch) == ("cell2", Plan.HEAVY, 2)


@each_case("after", [False, True])
@each_case("killed_at", range(len(WHOLE)))
async def test_killed_at_any_step_the_same_command_finishes_it(killed_at: int, *, after: bool) -> None:
    world = SmallWorld.lively()
    outcome = (await walk(lambda: relocate(world), killed_at=killed_at, after=after))[-1]
    assert outcome == "the agent of ada is on hermes-local-cell2-next with 7 messages"
    assert list(world.computers) == ["hermes-local-cell2-next"]
    assert world.here().runs
    assert world.here().state == MEMORY
    assert len(world.kept_backups) == 1


@each_case("after", [False, True])
@each_case("killed_at", range(len(WHOLE) + 1))
async def test_the_release_goes_with_the_agent(killed_at: int, *, after: bool) -> None:
    world = SmallWorld.lively()
    world.here().release = "0.19.0-abc"
    kept = frozenset({"0.19.0-abc"})
    await walk(lambda: relocate(world, kept=kept), killed_at=killed_at, after=after)
    assert (world.here().release, world.noted) == ("0.19.0-abc", "0.19.0-abc")
    assert world.here().runs


async def test_it_is_brought_while_the_old_gateway_serves() -> None:
    world = SmallWorld.lively()
    world.here().release = "0.19.0-abc"
    steps = await walk(lambda: relocate(world, kept=frozenset({"0.19.0-abc"})))
    assert steps.index("DeployRelease") < steps.index("Fence")


async def test_one_that_came_with_an_image_comes_with_the_next_one() -> None:
    world = SmallWorld.lively()
    world.here().release = "older-image"
    assert "DeployRelease" not in await walk(lambda: relocate(world))
    assert (world.here().release, world.noted) == ("image", "image")


async def test_a_release_that_would_be_left_again_by_itself_is_brought_again() -> None:
    world = SmallWorld.lively()
    world.here().release = "0.19.0-abc"
    kept = frozenset({"0.19.0-abc"})
    world.store_goes = True
    with pytest.raises(UnavailableError, match="object store does not answer"):
        await walk(lambda: relocate(world, kept=kept))
    world.store_goes = False
    [there] = [computer for name, computer in world.computers.items() if name != ADA.machine_name]
    there.switching = True
    assert (await walk(lambda: relocate(world, kept=kept)))[0] == "DeployRelease"


async def test_a_lost_machines_release_is_the_one_that_was_written_down() -> None:
    world = SmallWorld.lively()
    await world.fence(ADA, world.here().id)
    snapshot = await world.make(ADA, world.here().id, why="daily")
    world.computers.clear()
    world.stack.clear()
    world.noted = "0.19.0-abc"
    await walk(lambda: relocate(world, replace(MOVE, snapshot=snapshot.id), frozenset({"0.19.0-abc"})))
    assert world.here().release == "0.19.0-abc"


@each_case("killed_at", range(len(WHOLE)))
async def test_the_machine_that_it_comes_to_proves_whose_it_is_and_where(killed_at: int) -> None:
    world = SmallWorld.lively()
    world.certifies = True
    await walk(lambda: relocate(world), killed_at=killed_at)
    here = world.here()
    assert here.names == MachineNames("local", here.id, CellName("cell2"), ADA.id)


async def test_while_no_copy_comes_about_the_agent_lives_where_it_was() -> None:
    world = SmallWorld.lively()
    world.store_goes = True
    with pytest.raises(UnavailableError, match="object store does not answer"):
        await walk(lambda: relocate(world))
    assert world.here().runs
    assert world.instance.machine_name == ADA.machine_name
    world.store_goes = False
    assert (await walk(lambda: relocate(world)))[:2] == ["Fence", "BackUp"]
    assert world.here().runs


async def test_the_previous_machine_is_kept_fenced_where_that_was_asked() -> None:
    world = SmallWorld.lively()
    steps = await walk(lambda: relocate(world, replace(MOVE, keeps_previous=True)))
    assert steps[-1].endswith(f"; {ADA.machine_name} is kept for a while, its gateway stopped")
    previous = world.computers[ADA.machine_name]
    assert previous.fenced
    assert previous.state == MEMORY


async def test_a_backup_is_restored_although_the_machine_is_gone() -> None:
    world = SmallWorld.lively()
    await world.fence(ADA, world.here().id)
    snapshot = await world.make(ADA, world.here().id, why="daily")
    world.computers.clear()
    world.stack.clear()
    request = replace(MOVE, snapshot=snapshot.id)
    steps = await walk(lambda: relocate(world, request))
    assert steps[:6] == [
        "MarkForDeletion",
        "OrderReplacement",
        "GrowCell",
        "RecordReplacement",
        "Prepare",
        "RestoreBackup",
    ]
    assert world.here().state == MEMORY


async def test_a_silent_machine_is_switched_off_before_its_backup_lives_elsewhere() -> None:
    world = SmallWorld.lively()
    await world.fence(ADA, world.here().id)
    snapshot = await world.make(ADA, world.here().id, why="daily")
    await world.release(world.here().id)
    old = world.here()
    old.answers = False
    steps = await walk(lambda: relocate(world, replace(MOVE, snapshot=snapshot.id, keeps_previous=True)))
    assert "StopMachine" in steps
    assert old.status is MachineStatus.STOPPED
    assert world.here().runs


async def test_a_machine_that_somebody_stopped_is_started_to_be_copied_before_the_move() -> None:
    world = SmallWorld.lively()
    await world.stop_machine(ADA, world.here().id)
    steps = await walk(lambda: relocate(world))
    assert steps[3:6] == ["StartMachine", "Fence", "BackUp"]
    assert world.here().state == MEMORY


@each_case(
    ("there", "step"),
    [
        (replace(OURS, epoch=2), CutOver()),
        (replace(OURS, epoch=2, fenced=False), Prepare(NEXT)),
        (replace(OURS, epoch=1), Prepare(NEXT)),
        (replace(OURS, epoch=0), Prepare(NEXT)),
        (replace(OURS, epoch=2, instance_id=None), Prepare(NEXT)),
    ],
    ids=["prepared", "not fenced", "the epoch that the old machine has", "an earlier epoch", "nobody's"],
)
def test_the_next_machine_is_fenced_and_outranks_the_old_one_before_the_agent_is_on_it(
    there: NodeState, step: object
) -> None:
    ordered = ReplacementState(pooled(0, machine_id=NEXT), MachineState(NEXT, MachineStatus.READY), there, MEMORY)
    relocation_state = RelocationState(Observation(ADA, READY, OURS), replacement=ordered, backup=COPIED, source=COPIED)
    assert decide(relocation_state, MOVE, payload_digest="") == step


async def test_what_is_on_a_living_machine_is_copied_before_a_backup_takes_its_place() -> None:
    world = SmallWorld.lively()
    await world.fence(ADA, world.here().id)
    snapshot = await world.make(ADA, world.here().id, why="daily")
    await world.release(world.here().id)
    steps = await walk(lambda: relocate(world, replace(MOVE, snapshot=snapshot.id)))
    assert steps.index("BackUp") < steps.index("Prepare")
    assert [backup.why for backup in world.kept_backups] == ["daily", "before move 1"]


async def test_an_agent_whose_machine_was_given_back_wakes_on_another() -> None:
    world = SmallWorld.lively()
    await walk(
        lambda: Suspend(
            ADA.id,
            why="before suspend 1",
            keep=Keep.REMOVED,
            registry=world,
            client=world.client,
            backups=world,
            cells=SmallCells(world),
        )
    )
    request = replace(MOVE, snapshot=world.kept_backups[0].id)
    steps = await walk(lambda: relocate(world, request))
    assert steps[-1].startswith("the agent of ada is on")
    assert world.instance.status is InstanceStatus.RUNNING
    assert world.here().runs


async def test_a_move_of_a_silent_machine_is_refused_and_nothing_was_touched_on_it() -> None:
    world = SmallWorld.lively()
    world.here().answers = False
    steps = await walk(lambda: relocate(world))
    assert steps[-1].startswith("UnavailableError")
    assert world.instance.machine_name == ADA.machine_name
    assert world.computers[ADA.machine_name].runs


async def test_a_machine_of_somebody_else_is_left_alone() -> None:
    world = SmallWorld.lively()
    work = relocate(world)
    for _ in range(3):  # until the next machine is there
        relocation_state = await work.observe()
        await work.do(work.decide(relocation_state), relocation_state)  # type: ignore[arg-type] # a step, at these moments
    next_one = world.computers[world.unassigned_machines[0].name]
    next_one.owner = type(ADA.id)("somebody-else")
    steps = await walk(lambda: relocate(world))
    assert steps[-1].startswith("BrokenInvariantError")
    assert next_one.state == NOTHING


def test_a_wish_survives_the_row_it_is_kept_in() -> None:
    for request in (MOVE, replace(MOVE, only_plan=Plan.HEAVY, snapshot="s", keeps_previous=True)):
        assert RelocateIntent.from_json(json.loads(json.dumps(request.to_json()))) == request
