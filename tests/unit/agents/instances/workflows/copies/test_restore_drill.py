"""A restore drill proves a backup on a machine that never becomes anybody's, and leaves nothing, wherever it dies."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from hermesops.agents.instances.observation import MachineState
from hermesops.agents.instances.workflows.copies.restore_drill import Drill
from hermesops.errors import BrokenInvariantError
from hermesops.model.fleet.health import NodeState
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.fleet.unassigned_machine import MachineRole, UnassignedMachine, UnassignedStatus
from hermesops.model.ids import CellName, InstanceId, MachineId, MachineName, OperationId
from hermesops.model.operation import (
    Done,
    Operation,
    OperationKind,
    OperationStatus,
    OperationStep,
    Refused,
)
from hermesops.model.plan import Plan
from hermesops.model.recovery.backup import Backup
from hermesops.store.operations.kinds.copies import DrillIntent
from hermesops.vendor.justavps.wire import MachineStatus
from tests.support.crash.death import Death, KilledError
from tests.support.fakes.instances import ADA
from tests.support.fakes.registry import FakeRegistry
from tests.support.suite.cases import each_case
from tests.support.worlds.one_user import AT, MEMORY

NAME = MachineName("hermes-local-cell1-lent")
MACHINE = MachineId("m-9")
LENT = UnassignedMachine(
    NAME,
    MachineRole.DRILL,
    ADA.id,
    CellName("cell1"),
    Plan.LIGHT,
    "starter",
    "hel1",
    None,
    MACHINE,
    wanted=True,
    status=UnassignedStatus.CLAIMED,
    epoch=0,
    created_at=AT,
)
OPERATION = Operation(
    OperationId("op"),
    OperationKind.DRILL,
    f"drill/{ADA.id}",
    None,
    DrillIntent(user="ada", instance=ADA.id, snapshot="aaaabbbbcccc", why="weekly").to_json(),
    OperationStatus.RUNNING,
    "",
    "",
    AT + timedelta(minutes=1),
    AT,
)


@dataclass
class World(FakeRegistry):
    """One lent machine, a backup, a cell.

    Attributes:
        is_pooled: Whether a pool has a machine that is ready.
        breaks: Whether the backup does not hold what was copied.
    """

    is_pooled: bool = True
    breaks: bool = False
    instance: Instance = ADA
    backup: Backup | None = field(default_factory=lambda: Backup("aaaabbbbcccc", ADA.id, AT, "daily", 1, 1, MEMORY))
    row: UnassignedMachine | None = None
    machine: MachineState | None = None
    fenced: bool = False
    owner: InstanceId | None = None
    holds_state: bool = False
    stack: bool = False
    taken: int = 0
    checks: list[tuple[str, str]] = field(default_factory=list)

    def instances_get(self, _instance_id: InstanceId) -> Instance:
        return self.instance

    def backups_list(self, _instance_id: InstanceId) -> list[Backup]:
        return [self.backup] if self.backup else []

    def unassigned_list(self, *, role: MachineRole, instance_id: InstanceId) -> list[UnassignedMachine]:
        assert (role, instance_id) == (MachineRole.DRILL, ADA.id)
        return [self.row] if self.row else []

    def operations_steps(self, _operation_id: OperationId) -> list[OperationStep]:
        return [OperationStep(AT + timedelta(minutes=1), "taking a machine", "", "")] if self.taken else []

    def backups_record_check(self, backup_id: str, problem: str, *, where: str) -> None:
        assert self.backup
        assert backup_id == self.backup.id
        self.checks.append((problem, where))
        self.backup = replace(self.backup, checked_at=AT + timedelta(minutes=1, seconds=9), checked=problem)

    def unassigned_set_machine(self, name: MachineName, machine_id: MachineId, *, why: str) -> None:
        assert self.row
        assert why
        self.row = replace(self.row, name=name, machine_id=machine_id)

    def unassigned_retire(self, _name: MachineName, *, why: str) -> None:
        assert self.row
        assert why
        self.row = replace(self.row, wanted=False)

    def unassigned_forget(self, _name: MachineName, *, why: str) -> None:
        assert why
        assert self.machine is None, "a machine was forgotten that is still there"
        self.row = None

    async def take(self, _instance: Instance) -> None:
        self.taken += 1
        if self.is_pooled:
            self.row, self.stack = LENT, True
            self.machine = MachineState(MACHINE, MachineStatus.READY)
        else:
            self.row = replace(LENT, machine_id=None, status=UnassignedStatus.PREPARING)

    async def machine_named(self, _name: MachineName, _machine_id: MachineId | None) -> MachineState | None:
        return self.machine

    async def node(self, _machine_id: MachineId) -> NodeState | None:
        return NodeState(self.owner, 0, "", "0.19.0", fenced=self.fenced)

    async def start_machine(self, machine_id: MachineId) -> None:
        assert self.machine
        assert machine_id == MACHINE
        self.machine = replace(self.machine, status=MachineStatus.READY)

    async def await_named(self, _name: MachineName, machine_id: MachineId) -> None:
        await self.start_machine(machine_id)

    async def silence(self, _machine_id: MachineId) -> None:
        self.fenced = True

    async def restore(self, _instance: Instance, _machine_id: MachineId, _backup: Backup) -> None:
        assert self.fenced, "a state was put under a gateway that may start"
        assert self.owner is None, "a state was put on somebody's machine"
        self.holds_state = True
        if self.breaks:
            raise BrokenInvariantError("messages: 7, now 6")

    async def holds(self, _cell: CellName, _name: MachineName) -> bool:
        return self.stack

    async def apply(self, _cell: CellName, *, still_wanted: Callable[[], Awaitable[bool]]) -> None:
        if not await still_wanted():
            return
        assert self.row
        self.stack = self.row.wanted
        self.machine = MachineState(MACHINE, MachineStatus.PROVISIONING) if self.row.wanted else None
        self.holds_state = self.holds_state and self.row.wanted

    def work(self) -> Drill:
        itself: Any = self
        return Drill(OPERATION, registry=self, client=itself, backups=itself, cells=itself, take=self.take)


async def run(world: World, *, killed_after: int = 0) -> Done | Refused:
    """Run the loop; after so many steps it dies, and another one goes on from what is there."""
    work, death = world.work(), Death.after(killed_after)
    for _ in range(20):
        drill_state = await work.observe()
        step = work.decide(drill_state)
        if isinstance(step, Done | Refused):
            return step
        assert work.describe(step, drill_state)
        try:
            death.point()
            await work.do(step, drill_state)
            death.point()
        except KilledError:
            work, death = world.work(), Death()
    raise AssertionError("no end")


@each_case("is_pooled", [True, False])
@each_case("killed_after", range(8))
async def test_a_backup_is_proved_and_nothing_of_it_is_left(*, is_pooled: bool, killed_after: int) -> None:
    world = World(is_pooled=is_pooled)
    ended = await run(world, killed_after=killed_after)
    assert isinstance(ended, Done)
    assert "matches its original" in ended.outcome
    assert ended.outcome.endswith("9.0 s from taking the machine to the proof")
    assert world.checks == [("", f"drill op on {NAME}")]
    assert (world.row, world.machine, world.stack, world.holds_state) == (None, None, False, False)
    assert world.taken == 1


async def test_a_backup_that_does_not_hold_what_was_copied_is_told_and_the_machine_goes_all_the_same() -> None:
    world = World(breaks=True)
    ended = await run(world)
    assert isinstance(ended, Refused)
    assert "messages: 7, now 6" in ended.error.message
    assert world.backup
    assert not world.backup.is_proved
    assert (world.row, world.machine) == (None, None)


async def test_an_agent_that_ends_meanwhile_leaves_no_machine() -> None:
    world = World()
    await world.take(ADA)
    world.instance = replace(ADA, status=InstanceStatus.TERMINATED)
    assert isinstance(await run(world), Refused)
    assert (world.row, world.machine, world.checks) == (None, None, [])


async def test_a_backup_that_is_pruned_meanwhile_leaves_no_machine() -> None:
    world = World()
    await world.take(ADA)
    world.backup = None
    assert isinstance(await run(world), Refused)
    assert (world.row, world.machine) == (None, None)


async def test_a_machine_that_somebody_gave_up_is_destroyed_and_another_taken() -> None:
    world = World()
    await world.take(ADA)
    world.unassigned_retire(NAME, why="by hand")
    assert isinstance(await run(world), Done)
    assert world.taken == 2


async def test_a_machine_that_is_in_error_is_exchanged() -> None:
    world = World()
    await world.take(ADA)
    world.machine = MachineState(MACHINE, MachineStatus.ERROR)
    assert isinstance(await run(world), Done)
    assert world.taken == 2


async def test_a_machine_that_was_made_and_not_written_down_is_taken_in_first() -> None:
    world = World()
    await world.take(ADA)
    world.stack = False
    assert isinstance(await run(world), Done)
    assert (world.taken, world.machine, world.stack) == (1, None, False)


async def test_a_machine_that_stands_still_is_started() -> None:
    world = World()
    await world.take(ADA)
    world.machine = MachineState(MACHINE, MachineStatus.STOPPED)
    assert isinstance(await run(world), Done)
    assert world.taken == 1


async def test_nothing_is_put_on_a_machine_that_says_it_is_somebodys() -> None:
    world = World(owner=InstanceId("bob"))
    await world.take(ADA)
    ended = await run(world)
    assert isinstance(ended, Refused)
    assert "instance bob's" in ended.error.message
    assert (world.holds_state, world.machine) == (False, MachineState(MACHINE, MachineStatus.READY))
