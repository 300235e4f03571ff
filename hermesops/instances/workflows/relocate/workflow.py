"""The work of bringing one instance onto another machine; what comes next is decided in ``relocate``."""

from dataclasses import replace
from functools import partial
from typing import Protocol

from hermesops.instances.observation import Observation
from hermesops.instances.ports import Cells, Copies
from hermesops.instances.steps import start_verified, stop_and_backup
from hermesops.instances.steps.new_machine import (
    AwaitNext,
    DeployRelease,
    GrowCell,
    NextMachineState,
    OrderNext,
    RecordNext,
    StartNext,
)
from hermesops.instances.steps.stop_and_backup import BackUp, Fence
from hermesops.instances.workflows.relocate import decide as relocate
from hermesops.instances.workflows.relocate.decide import (
    CutOver,
    ForgetFormer,
    MarkForDeletion,
    Prepare,
    RelocationState,
    RestoreBackup,
    RetireFormer,
    ShrinkCell,
    Step,
    StopMachine,
)
from hermesops.instances.workflows.relocate.request import RelocationRequest
from hermesops.model.backup import Backup
from hermesops.model.cell import Placement
from hermesops.model.ids import InstanceId, MachineId, MachineName
from hermesops.model.instance import Instance
from hermesops.model.operation import Done, Lease, Refused
from hermesops.model.release import ReleaseId
from hermesops.model.spare import Purpose, Spare
from hermesops.registry import Registry


class World(start_verified.World, Protocol):
    """Machines, nodes and gateways."""

    async def look_as(self, instance: Instance) -> Observation:
        """See an instance as if its row said this."""

    async def prepare(self, instance: Instance, machine_id: MachineId, request: str | None) -> None:
        """Make a machine the instance's without starting its gateway, which is fenced."""


class Backups(Copies, Protocol):
    """Backups, found and put back."""

    def get(self, instance_id: InstanceId, snapshot: str) -> Backup:
        """One backup of an instance."""

    async def restore(self, instance: Instance, machine_id: MachineId, backup: Backup) -> object:
        """Put a backup's state on a machine whose gateway is fenced."""


class Releases(Protocol):
    """What agents run."""

    async def of(self, instance_id: InstanceId, told: str) -> ReleaseId | None:
        """The release that goes with an agent, where machines can be brought it.

        Args:
            instance_id: Whose.
            told: What its machine says that it runs; empty where it says nothing.
        """

    async def deploy(self, machine_id: MachineId, release: ReleaseId) -> None:
        """Have a machine without an instance run a release."""


def successor(instance: Instance, spare: Spare) -> Instance:
    """The instance as it will be once it is on that machine. Pure."""
    return replace(
        instance,
        machine_name=spare.name,
        machine_id=spare.machine_id,
        cell=spare.cell,
        plan=spare.plan,
        epoch=instance.epoch + 1,
    )


class Relocate:
    """The work of one relocation, for the operations' loop.

    Args:
        instance_id: Whose.
        request: What was asked.
        registry: The registry.
        world: Machines, nodes and gateways.
        backups: Backups.
        cells: Stacks of cells.
        releases: What agents run.
        lease: Under which the rows are cut over; whoever lost it puts the instance nowhere.
    """

    def __init__(
        self,
        instance_id: InstanceId,
        request: RelocationRequest,
        *,
        registry: Registry,
        world: World,
        backups: Backups,
        cells: Cells,
        releases: Releases,
        lease: Lease | None = None,
    ) -> None:
        self._instance_id = instance_id
        self._request = request
        self._registry = registry
        self._world = world
        self._backups = backups
        self._cells = cells
        self._releases = releases
        self._lease = lease

    async def observe(self) -> RelocationState:
        """Look at the instance, its machine, the next and the former one, and its backups."""
        observation = await self._world.observe(self._instance_id)
        backup = self._backups.made(self._instance_id, self._request.why)
        chosen = self._backups.get(self._instance_id, self._request.snapshot) if self._request.snapshot else backup
        former = self._registry.spares.find(self._request.origin)
        told = observation.own_node.release if observation.own_node else ""
        return RelocationState(
            observation,
            state=await stop_and_backup.resting_state(observation, self._world),
            release=await self._releases.of(self._instance_id, told),
            next=await self._next(observation.instance),
            backup=backup,
            source=chosen,
            wanted=self._registry.instances.is_machine_wanted(self._instance_id),
            former=former,
            former_in_stack=former is not None and await self._cells.holds(former.cell, former.name),
        )

    async def _next(self, instance: Instance) -> NextMachineState | None:
        ordered = self._registry.spares.list(purpose=Purpose.NEXT, instance_id=instance.id)
        spare = next((spare for spare in ordered if spare.wanted), None)
        if spare is None:
            return None
        seen = await self._world.look_as(successor(instance, spare))
        return NextMachineState(spare, seen.machine, seen.node, await stop_and_backup.resting_state(seen, self._world))

    def decide(self, seen: RelocationState) -> Step | Done | Refused:
        """The next step for what was seen."""
        return relocate.decide(
            seen, self._request.as_decided, payload_digest=self._world.payload_digest(seen.observation.instance)
        )

    def describe(self, step: Step, seen: RelocationState) -> str:
        """The step in a few words."""
        return relocate.describe(step, seen)

    async def do(self, step: Step, seen: RelocationState) -> None:
        """Do one step; harmless when it was done before."""
        instance = seen.observation.instance
        match step:
            case MarkForDeletion():
                self._registry.instances.leave_machine(instance.id, why=self._request.why)
            case OrderNext():
                self._order_next(instance)
            case StopMachine(machine_id=machine_id):
                await self._world.stop_machine(instance, machine_id)
            case RetireFormer(name=name):
                self._registry.spares.retire(name, why=self._request.why)
            case ShrinkCell(name=name):
                await self._shrink(name, seen)
            case ForgetFormer(name=name):
                self._registry.spares.forget(name, why=self._request.why)
            case Prepare() | RestoreBackup() | CutOver():
                await self._hand_over(step, seen)
            case GrowCell() | RecordNext() | StartNext() | AwaitNext() | DeployRelease():
                await self._make_ready(step, seen)
            case Fence() | BackUp():
                await stop_and_backup.do(step, instance, world=self._world, copies=self._backups, why=self._request.why)
            case _:
                await start_verified.do(step, instance, world=self._world, registry=self._registry)

    async def _make_ready(
        self, step: GrowCell | RecordNext | StartNext | AwaitNext | DeployRelease, seen: RelocationState
    ) -> None:
        spare, there = _next_of(seen)
        match step:
            case GrowCell():
                await self._cells.apply(spare.cell, still_wanted=partial(self._lacks, spare))
            case RecordNext(machine_id=machine_id):
                self._registry.spares.set_machine(spare.name, machine_id, why=self._request.why)
            case StartNext(machine_id=machine_id):
                await self._world.start_machine(machine_id)
                await self._world.await_machine(there, machine_id)
            case AwaitNext(machine_id=machine_id):
                await self._world.await_machine(there, machine_id)
            case DeployRelease(machine_id=machine_id, release=release):
                await self._releases.deploy(machine_id, release)

    async def _hand_over(self, step: Prepare | RestoreBackup | CutOver, seen: RelocationState) -> None:
        spare, there = _next_of(seen)
        match step:
            case Prepare(machine_id=machine_id, request=request):
                await self._world.prepare(there, machine_id, request)
            case RestoreBackup(machine_id=machine_id, snapshot=snapshot):
                await self._backups.restore(there, machine_id, self._backups.get(there.id, snapshot))
            case CutOver():
                if seen.next and seen.next.node and seen.next.node.release:
                    self._registry.rollout_targets.record_releases({there.id: ReleaseId(seen.next.node.release)})
                self._registry.assignments.cut_over(there.id, spare.name, lease=self._lease, why=self._request.why)

    def _order_next(self, instance: Instance) -> None:
        request = self._request
        place = Placement(request.cell, request.region, request.only_plan)
        self._registry.spares.place(
            Purpose.NEXT,
            plan=request.plan,
            server_type=request.server_type,
            image_id=request.image_id,
            choose=lambda _: place,
            instance_id=instance.id,
            why=request.why,
        )

    async def _lacks(self, spare: Spare) -> bool:
        return not await self._cells.holds(spare.cell, spare.name)

    async def _shrink(self, name: MachineName, seen: RelocationState) -> None:
        if seen.former is None:
            return
        cell = seen.former.cell
        await self._cells.apply(cell, still_wanted=lambda: self._cells.holds(cell, name))


def _next_of(seen: RelocationState) -> tuple[Spare, Instance]:
    """The machine that was ordered, and the instance as it will be on it."""
    if seen.next is None:
        raise ValueError("asked before there is a next machine")
    return seen.next.spare, successor(seen.observation.instance, seen.next.spare)
