"""A preview expects the steps that the workflow then does, in every situation that lifecycle tests have."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from hermesops.agents.instances.observation import MachineState, Observation
from hermesops.agents.instances.preview.change_preview import foresee
from hermesops.agents.instances.preview.effects import Effects
from hermesops.agents.instances.workflows.reboot import Attempt, Reboot, RebootState
from hermesops.agents.instances.workflows.relocate import Relocate
from hermesops.agents.instances.workflows.resize import Resize
from hermesops.agents.instances.workflows.restart import Restart, RestartState
from hermesops.agents.instances.workflows.resume import Resume
from hermesops.agents.instances.workflows.schedule_termination import ScheduleTermination
from hermesops.agents.instances.workflows.suspend import Suspend
from hermesops.agents.instances.workflows.terminate import Terminate
from hermesops.errors import BrokenInvariantError, RefusedError
from hermesops.model.fleet.health import Answer, Answers, GatewayHealth, NodeState
from hermesops.model.ids import CellName, MachineId, OperationId
from hermesops.model.plan import Plan
from hermesops.store.operations.intent import Intent
from hermesops.store.operations.kinds.agents import (
    Keep,
    PlanSize,
    RebootIntent,
    RelocateIntent,
    ResizeIntent,
    RestartIntent,
    ResumeIntent,
    ScheduleTerminationIntent,
    SuspendIntent,
    TerminateIntent,
)
from hermesops.vendor.justavps.wire import MachineStatus
from tests.support.crash.workflow_walk import walk
from tests.support.fakes.instances import ADA
from tests.support.fakes.parts import part
from tests.support.worlds.one_user import AT, SIZES, SmallCells, SmallReleases, SmallWorld

READY = MachineState(MachineId("m"), MachineStatus.READY, "starter")
NODE = NodeState(ADA.id, ADA.epoch, "", "r")
WHY = "before test 1"
ASKED: dict[str, Any] = {"user": "ada", "reason": "asked"}
LIGHT, HEAVY = PlanSize(Plan.LIGHT, SIZES[Plan.LIGHT]), PlanSize(Plan.HEAVY, SIZES[Plan.HEAVY])
GB = {Plan.LIGHT: 40, Plan.HEAVY: 80}
UNTIL = AT + timedelta(days=7)

Make = Callable[[SmallWorld], Any]


def suspend(keep: Keep) -> Make:
    return lambda w: Suspend(w.instance.id, WHY, keep, w, w.client, w, SmallCells(w))


def resume(world: SmallWorld) -> Resume:
    return Resume(world.instance.id, world, world.client, world)


def resize(world: SmallWorld) -> Resize:
    return Resize(world.instance.id, WHY, LIGHT, HEAVY, GB, world, world.client, world, SmallCells(world))


def terminate(*, keeps_backup: bool) -> Make:
    def make(world: SmallWorld) -> Terminate:
        itself: Any = world
        return Terminate(world.instance.id, WHY, keeps_backup, world, world.client, itself, itself, SmallCells(world))

    return make


def schedule(world: SmallWorld) -> ScheduleTermination:
    return ScheduleTermination(world.instance.id, WHY, UNTIL, world, world.client, world)


def relocation(**changes: Any) -> RelocateIntent:  # noqa: ANN401 - any field of the intent
    world = SmallWorld.lively()
    moves = {"origin": world.instance.machine_name, "cell": CellName("cell2"), "region": "hel1"}
    return RelocateIntent(**{**ASKED, **moves, "plan": Plan.HEAVY, "server_type": SIZES[Plan.HEAVY], **changes})


def relocate(intent: RelocateIntent) -> Make:
    return lambda w: Relocate(
        w.instance.id, intent, WHY, w, w.client, w, SmallCells(w), SmallReleases(w, frozenset({"0.19.0-abc"}))
    )


async def lively(_world: SmallWorld) -> None:
    pass


async def stopped(world: SmallWorld) -> None:
    await world.stop_machine(world.instance, world.here().id)


async def suspended(world: SmallWorld) -> None:
    await walk(lambda: suspend(Keep.STOPPED)(world))


async def backed_up(world: SmallWorld) -> None:
    world.here().fenced = True
    await world.make(world.instance, world.here().id, why="daily")
    world.here().fenced = False


async def gone(world: SmallWorld) -> None:
    await backed_up(world)
    world.computers.clear()
    world.stack.clear()


async def on_a_release(world: SmallWorld) -> None:
    world.here().release = "0.19.0-abc"


Before = Callable[[SmallWorld], Awaitable[None]]

CASES: dict[str, tuple[Before, Make, Intent]] = {
    "suspend, stopped": (lively, suspend(Keep.STOPPED), SuspendIntent(**ASKED, keep=Keep.STOPPED)),
    "suspend, removed": (lively, suspend(Keep.REMOVED), SuspendIntent(**ASKED, keep=Keep.REMOVED)),
    "suspend a stopped one": (stopped, suspend(Keep.STOPPED), SuspendIntent(**ASKED, keep=Keep.STOPPED)),
    "resume": (suspended, resume, ResumeIntent(**ASKED)),
    "resize": (lively, resize, ResizeIntent(**ASKED, before=LIGHT, after=HEAVY)),
    "resize a stopped one": (stopped, resize, ResizeIntent(**ASKED, before=LIGHT, after=HEAVY)),
    "move": (lively, relocate(relocation()), relocation()),
    "move, previous kept": (lively, relocate(relocation(keeps_previous=True)), relocation(keeps_previous=True)),
    "move with its release": (on_a_release, relocate(relocation()), relocation()),
    "restore onto a new machine": (
        backed_up,
        relocate(relocation(snapshot="snapshot0")),
        relocation(snapshot="snapshot0"),
    ),
    "restore of a lost one": (gone, relocate(relocation(snapshot="snapshot0")), relocation(snapshot="snapshot0")),
    "terminate": (
        lively,
        terminate(keeps_backup=True),
        TerminateIntent(**ASKED, machine_name=relocation().origin, keeps_backup=True),
    ),
    "terminate without backup": (
        backed_up,
        terminate(keeps_backup=False),
        TerminateIntent(**ASKED, machine_name=relocation().origin, keeps_backup=False),
    ),
    "terminate a suspended one": (
        suspended,
        terminate(keeps_backup=True),
        TerminateIntent(**ASKED, machine_name=relocation().origin, keeps_backup=True),
    ),
    "schedule a termination": (lively, schedule, ScheduleTerminationIntent(**ASKED, until=UNTIL)),
    "schedule that of a suspended one": (suspended, schedule, ScheduleTerminationIntent(**ASKED, until=UNTIL)),
}


@pytest.mark.parametrize("name", CASES)
async def test_the_steps_of_a_preview_are_those_that_run(name: str) -> None:
    prepare, make, intent = CASES[name]
    world = SmallWorld.lively()
    await prepare(world)
    work = make(world)
    foreseen = foresee(work, await work.observe(), Effects(intent, world.client.payload_digest, AT).after)
    walked = (await walk(lambda: make(world)))[:-1]
    # A suspension and a change of machine revoke model tokens; this world has none, so nothing is handed again.
    assert [step.name for step in foreseen.steps if step.name != "Personalise"] == [
        step for step in walked if step != "Personalise"
    ]
    assert walked


@pytest.mark.parametrize("name", CASES)
async def test_a_preview_changes_nothing(name: str) -> None:
    prepare, make, intent = CASES[name]
    world = SmallWorld.lively()
    await prepare(world)
    work = make(world)
    await work.observe()  # which records the release: here workflows always observe under a lease
    before = repr(world)
    foresee(work, await work.observe(), Effects(intent, world.client.payload_digest, AT).after)
    assert repr(world) == before


@pytest.mark.parametrize(
    ("name", "down"),
    [
        ("suspend, stopped", {"Fence", "BackUp", "StopMachine", "MarkSuspended"}),
        ("resize", {"Fence", "BackUp", "ChangePlan", "ApplyCell", "Release", "Personalise"}),
        (
            "move, previous kept",
            {"Fence", "BackUp", "Prepare", "RestoreBackup", "CutOver", "Release", "Personalise"},
        ),
    ],
)
async def test_the_agent_is_down_from_the_stop_of_its_gateway_to_its_start(name: str, down: set[str]) -> None:
    prepare, make, intent = CASES[name]
    world = SmallWorld.lively()
    await prepare(world)
    work = make(world)
    foreseen = foresee(work, await work.observe(), Effects(intent, world.client.payload_digest, AT).after)
    assert {step.name for step in foreseen.steps if step.is_down} == down


async def test_a_change_that_its_workflow_refuses_is_refused_with_the_same_error() -> None:
    world = SmallWorld.lively()
    world.computers.clear()
    intent = ResizeIntent(**ASKED, before=LIGHT, after=HEAVY)
    work = resize(world)
    with pytest.raises(RefusedError) as refused:
        foresee(work, await work.observe(), Effects(intent, world.client.payload_digest, AT).after)
    assert (await walk(lambda: resize(world)))[-1] == f"RefusedError: {refused.value.message}"


async def test_steps_without_an_end_are_a_bug_and_not_an_endless_command() -> None:
    world = SmallWorld.lively()
    work = resize(world)
    with pytest.raises(BrokenInvariantError, match="do not end"):
        foresee(work, await work.observe(), lambda _step, observation: observation)


def test_a_restart_is_two_steps_in_which_the_agent_is_down() -> None:
    state = RestartState(Observation(ADA, READY, NODE, GatewayHealth.OK), "before")
    foreseen = foresee(
        Restart(ADA.id, "before", part()),
        state,
        Effects(RestartIntent(user="ada", before="before"), lambda _: "", AT).after,
    )
    assert [(step.name, step.is_down) for step in foreseen.steps] == [("RestartGateway", True), ("AwaitGateway", True)]


def test_a_reboot_of_a_silent_machine_and_of_one_that_answers() -> None:
    silent = Observation(ADA, READY)
    for machine, answer, steps in (
        (READY, Answer.SILENT, ["RebootMachine", "AwaitGateway"]),
        (replace(READY, status=MachineStatus.STOPPED), Answer.SILENT, ["StartMachine", "AwaitGateway"]),
        (READY, Answer.YES, []),
    ):
        state = RebootState(replace(silent, machine=machine), Answers("ready", answer, answer), Attempt.NOTHING)
        work = Reboot(ADA.id, OperationId("dry-run"), part(), part())
        foreseen = foresee(work, state, Effects(RebootIntent(user="ada", reason="t"), lambda _: "", AT).after)
        assert [step.name for step in foreseen.steps] == steps
