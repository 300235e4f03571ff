"""Does what ``relocate.decide`` says."""

from dataclasses import dataclass, replace
from functools import partial

from hermesops.instances.ports import Backups, Cells, Releases
from hermesops.instances.remote.power_control import PowerControl
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
from hermesops.model.cell import Placement
from hermesops.model.ids import InstanceId, MachineName
from hermesops.model.instance import Instance
from hermesops.model.operation import Done, Refused
from hermesops.model.release import ReleaseId
from hermesops.model.spare import Purpose, Spare
from hermesops.operations.kinds import RelocateIntent
from hermesops.registry import Registry


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


@dataclass
class Relocate:
    """The work of one relocation, for the operations' loop.

    Attributes:
        client: Machines, nodes and gateways, under the lease that the rows are cut over with: whoever lost it puts the
            instance nowhere.
    """

    instance_id: InstanceId
    request: RelocateIntent
    why: str
    registry: Registry
    client: PowerControl
    backups: Backups
    cells: Cells
    releases: Releases

    async def observe(self) -> RelocationState:
        """Look at the instance, its machine, the next and the former one, and its backups."""
        observation = await self.client.observe(self.instance_id)
        backup = self.backups.made(self.instance_id, self.why)
        chosen = self.backups.get(self.instance_id, self.request.snapshot) if self.request.snapshot else backup
        former = self.registry.spares.find(self.request.origin)
        told = observation.own_node.release if observation.own_node else ""
        return RelocationState(
            observation,
            state=await stop_and_backup.stopped_state(observation, self.client),
            release=await self.releases.of(self.instance_id, told),
            next=await self._next(observation.instance),
            backup=backup,
            source=chosen,
            wanted=self.registry.instances.is_machine_wanted(self.instance_id),
            former=former,
            former_in_stack=former is not None and await self.cells.holds(former.cell, former.name),
        )

    async def _next(self, instance: Instance) -> NextMachineState | None:
        ordered = self.registry.spares.list(purpose=Purpose.NEXT, instance_id=instance.id)
        spare = next((spare for spare in ordered if spare.wanted), None)
        if spare is None:
            return None
        seen = await self.client.look_as(successor(instance, spare))
        return NextMachineState(spare, seen.machine, seen.node, await stop_and_backup.stopped_state(seen, self.client))

    def decide(self, seen: RelocationState) -> Step | Done | Refused:
        """The next step for what was seen."""
        digest = self.client.payload_digest(seen.observation.instance)
        return relocate.decide(seen, self.request, payload_digest=digest)

    def describe(self, step: Step, seen: RelocationState) -> str:
        """The step in a few words."""
        return relocate.describe(step, seen)

    async def do(self, step: Step, seen: RelocationState) -> None:
        """Do one step; harmless when it was done before."""
        instance = seen.observation.instance
        match step:
            case MarkForDeletion():
                self.registry.instances.leave_machine(instance.id, why=self.why)
            case OrderNext():
                self._order_next(instance)
            case StopMachine(machine_id=machine_id):
                await self.client.stop_machine(instance, machine_id)
            case RetireFormer(name=name):
                self.registry.spares.retire(name, why=self.why)
            case ShrinkCell(name=name):
                await self._shrink(name, seen)
            case ForgetFormer(name=name):
                self.registry.spares.forget(name, why=self.why)
            case Prepare() | RestoreBackup() | CutOver():
                await self._hand_over(step, seen)
            case GrowCell() | RecordNext() | StartNext() | AwaitNext() | DeployRelease():
                await self._make_ready(step, seen)
            case Fence() | BackUp():
                await stop_and_backup.do(step, instance, client=self.client, backups=self.backups, why=self.why)
            case _:
                await start_verified.do(step, instance, client=self.client, registry=self.registry)

    async def _make_ready(
        self, step: GrowCell | RecordNext | StartNext | AwaitNext | DeployRelease, seen: RelocationState
    ) -> None:
        spare, there = _next_of(seen)
        match step:
            case GrowCell():
                await self.cells.apply(spare.cell, still_wanted=partial(self._lacks, spare))
            case RecordNext(machine_id=machine_id):
                self.registry.spares.set_machine(spare.name, machine_id, why=self.why)
            case StartNext(machine_id=machine_id):
                await self.client.start_machine(machine_id)
                await self.client.await_machine(there, machine_id)
            case AwaitNext(machine_id=machine_id):
                await self.client.await_machine(there, machine_id)
            case DeployRelease(machine_id=machine_id, release=release):
                await self.releases.deploy(machine_id, release)

    async def _hand_over(self, step: Prepare | RestoreBackup | CutOver, seen: RelocationState) -> None:
        spare, there = _next_of(seen)
        match step:
            case Prepare(machine_id=machine_id, request=request):
                await self.client.prepare(there, machine_id, request)
            case RestoreBackup(machine_id=machine_id, snapshot=snapshot):
                await self.backups.restore(there, machine_id, self.backups.get(there.id, snapshot))
            case CutOver():
                if seen.next and seen.next.node and seen.next.node.release:
                    self.registry.rollout_targets.record_releases({there.id: ReleaseId(seen.next.node.release)})
                self.registry.assignments.cut_over(there.id, spare.name, lease=self.client.lease, why=self.why)

    def _order_next(self, instance: Instance) -> None:
        request = self.request
        place = Placement(request.cell, request.region, request.only_plan)
        self.registry.spares.place(
            Purpose.NEXT,
            plan=request.plan,
            server_type=request.server_type,
            image_id=request.image_id,
            choose=lambda _: place,
            instance_id=instance.id,
            why=self.why,
        )

    async def _lacks(self, spare: Spare) -> bool:
        return not await self.cells.holds(spare.cell, spare.name)

    async def _shrink(self, name: MachineName, seen: RelocationState) -> None:
        if seen.former is None:
            return
        cell = seen.former.cell
        await self.cells.apply(cell, still_wanted=lambda: self.cells.holds(cell, name))


def _next_of(seen: RelocationState) -> tuple[Spare, Instance]:
    """The machine that was ordered, and the instance as it will be on it."""
    if seen.next is None:
        raise ValueError("asked before there is a next machine")
    return seen.next.spare, successor(seen.observation.instance, seen.next.spare)
