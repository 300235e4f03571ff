"""Provisioning ends in the same world, by the same changes, wherever it was killed."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from hermesops.agents.instances.observation import MachineState, Observation
from hermesops.agents.instances.steps import start_verified, stop_and_backup
from hermesops.agents.instances.steps.machine_table import AwaitMachine, StartMachine
from hermesops.agents.instances.steps.new_machine import GrowCell
from hermesops.agents.instances.steps.personalise import AwaitGateway, MarkRunning, Personalise
from hermesops.agents.instances.workflows.provision import (
    Provision,
    RecordMachine,
    decide,
)
from hermesops.errors import BrokenInvariantError, RefusedError, UnavailableError
from hermesops.model.fleet.health import GatewayHealth, NodeState
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.ids import CellName, InstanceId, MachineId, MachineName
from hermesops.model.operation import Done, Refused
from hermesops.vendor.justavps.wire import MachineStatus
from tests.support.crash.death import Death, KilledError
from tests.support.fakes.instances import ADA, MACHINE, READY
from tests.support.fakes.registry import FakeRegistry
from tests.support.suite.cases import each_case

RECORDED = replace(ADA, status=InstanceStatus.PROVISIONING)
ROW = replace(RECORDED, machine_id=None)
ID = ROW.id
FRESH = NodeState(None, 0, "", "0.19.0")
OURS = NodeState(ID, 1, "digest", "0.19.0")


@each_case(
    ("observation", "step"),
    [
        (Observation(ROW, None), GrowCell()),
        (Observation(ROW, MachineState(MACHINE, MachineStatus.DELETED)), GrowCell()),
        (Observation(ROW, READY), RecordMachine(MACHINE)),
        (Observation(RECORDED, MachineState(MACHINE, MachineStatus.PROVISIONING)), AwaitMachine(MACHINE)),
        (Observation(RECORDED, MachineState(MACHINE, MachineStatus.UNKNOWN)), AwaitMachine(MACHINE)),
        (Observation(RECORDED, MachineState(MACHINE, MachineStatus.STOPPED)), StartMachine(MACHINE)),
        (Observation(RECORDED, READY), AwaitMachine(MACHINE)),
        (Observation(RECORDED, READY, FRESH), Personalise(MACHINE)),
        (Observation(RECORDED, READY, replace(OURS, digest="older")), Personalise(MACHINE)),
        (Observation(RECORDED, READY, replace(OURS, epoch=0)), Personalise(MACHINE)),
        (Observation(RECORDED, READY, OURS), AwaitGateway(MACHINE)),
        (Observation(RECORDED, READY, OURS, GatewayHealth.REFUSED), AwaitGateway(MACHINE)),
        (Observation(RECORDED, READY, OURS, GatewayHealth.OK), MarkRunning()),
    ],
)
def test_the_next_step_follows_from_what_is_seen(observation: Observation, step: object) -> None:
    assert decide(observation, payload_digest="digest") == step


def test_a_user_without_an_alias_is_told_of_by_id() -> None:
    gone = decide(Observation(replace(RECORDED, user_alias=""), None, is_backed_up=True), payload_digest="digest")
    assert isinstance(gone, Refused)
    assert str(gone.error.hint) == f"hermesops backup restore {ADA.user_id} --onto-new-machine"


def test_a_living_agent_needs_nothing() -> None:
    living = replace(RECORDED, status=InstanceStatus.RUNNING)
    assert isinstance(decide(Observation(living, READY, OURS, GatewayHealth.OK), payload_digest="digest"), Done)


def test_a_machine_in_error_is_not_replaced_since_it_may_recover() -> None:
    verdict = decide(Observation(RECORDED, MachineState(MACHINE, MachineStatus.ERROR)), payload_digest="digest")
    assert isinstance(verdict, Refused)
    assert isinstance(verdict.error, UnavailableError)


@pytest.mark.parametrize("machine", [None, MachineState(MACHINE, MachineStatus.DELETED)])
def test_a_machine_that_vanished_is_never_replaced_in_silence(machine: MachineState | None) -> None:
    verdict = decide(Observation(RECORDED, machine), payload_digest="digest")
    assert isinstance(verdict, Refused)
    assert isinstance(verdict.error, RefusedError)
    assert "no backup" in verdict.error.message
    assert "--without-backup" in str(verdict.error.hint)


@pytest.mark.parametrize("machine", [None, MachineState(MACHINE, MachineStatus.DELETED)])
def test_whoever_can_be_restored_is_never_advised_to_end(machine: MachineState | None) -> None:
    observation = Observation(replace(RECORDED, status=InstanceStatus.RUNNING), machine, is_backed_up=True)
    for verdict in (
        decide(observation, payload_digest="digest"),
        stop_and_backup.next_step(observation, None),
        start_verified.next_step(observation, payload_digest="digest", was=None, state=None),
    ):
        assert isinstance(verdict, Refused)
        assert str(verdict.error.hint) == f"hermesops backup restore {RECORDED.title} --onto-new-machine"


def test_somebody_elses_machine_is_never_personalised() -> None:
    stranger = replace(OURS, instance_id=InstanceId("other"))
    verdict = decide(Observation(RECORDED, READY, stranger), payload_digest="digest")
    assert isinstance(verdict, Refused)
    assert isinstance(verdict.error, BrokenInvariantError)


@dataclass
class World(FakeRegistry):
    """A registry, a vendor and a machine in memory; each change is a step at which the process may die."""

    row: Instance = ROW
    machine: MachineState | None = None
    node: NodeState | None = None
    gateway: GatewayHealth | None = None
    changes: list[str] = field(default_factory=list)
    death: Death = field(default_factory=Death)
    records: list[Instance] = field(default_factory=list)

    def change(self, name: str, make: Callable[[], None]) -> None:
        self.death.point()
        make()
        self.changes.append(name)
        self.death.point()

    async def observe(self, instance_id: InstanceId) -> Observation:
        assert instance_id == ID
        return Observation(self.row, self.machine, self.node, self.gateway)

    def payload_digest(self, instance: Instance) -> str:
        assert instance.id == ID
        return "digest"

    async def holds(self, cell: CellName, machine: MachineName) -> bool:
        assert (cell, machine) == (ROW.cell, ROW.machine_name)
        return self.machine is not None

    async def apply(self, cell: CellName, *, still_wanted: Callable[[], Awaitable[bool]]) -> None:
        assert cell == ROW.cell
        assert await still_wanted(), "a second machine"
        self.change("machine", lambda: setattr(self, "machine", MachineState(MACHINE, MachineStatus.PROVISIONING)))

    async def start_machine(self, machine_id: MachineId) -> None:
        raise AssertionError(machine_id)

    async def await_machine(self, instance: Instance, machine_id: MachineId) -> None:
        assert instance.machine_id == machine_id
        self.machine, self.node = READY, self.node or FRESH

    async def personalise(self, instance: Instance, machine_id: MachineId, _request: str | None) -> None:
        assert instance.machine_id == machine_id
        self.change("personalised", lambda: setattr(self, "node", OURS))

    async def await_gateway(self, instance: Instance, machine_id: MachineId) -> None:
        assert instance.machine_id == machine_id
        self.gateway = GatewayHealth.OK

    def instances_get(self, instance_id: InstanceId) -> Instance:
        assert instance_id == ID
        return self.row

    def instances_set_machine(self, instance_id: InstanceId, machine_id: MachineId) -> None:
        assert instance_id == ID
        self.change("recorded", lambda: setattr(self, "row", replace(self.row, machine_id=machine_id)))

    def instances_set_status(self, instance_id: InstanceId, status: InstanceStatus) -> None:
        assert instance_id == ID
        self.change("running", lambda: setattr(self, "row", replace(self.row, status=status)))

    async def save_record(self, instance: Instance) -> None:
        assert instance.id == ID
        self.records.append(self.row)


async def provision(world: World) -> None:
    client: Any = world
    cells: Any = world
    work = Provision(ID, world, client, cells, world.save_record)
    for _ in range(20):
        observation = await work.observe()
        match work.decide(observation):
            case Done():
                return
            case Refused(error=error):
                raise error
            case step:
                assert work.describe(step, observation)
                await work.do(step, observation)
    pytest.fail("no end")


CHANGES = ["machine", "recorded", "personalised", "running"]


async def test_four_changes_make_a_living_agent() -> None:
    world = World()
    await provision(world)
    assert world.changes == CHANGES
    assert world.row.status is InstanceStatus.RUNNING


async def test_a_running_agent_has_a_recovery_record_before_its_first_backup() -> None:
    world = World()
    await provision(world)
    assert world.records == [world.row]


@each_case("at", range(1, 2 * len(CHANGES) + 1))
async def test_killed_anywhere_it_ends_by_the_same_changes(at: int) -> None:
    world = World(death=Death(at))
    with pytest.raises(KilledError):
        await provision(world)
    world.death = Death()
    await provision(world)
    assert world.changes == CHANGES
