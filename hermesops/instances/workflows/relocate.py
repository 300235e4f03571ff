"""Bring an instance onto another machine: to resize or move it, to restore a backup, or where its machine is gone.

The new machine is made ready while the old one still serves. Then the old gateway is stopped, its state backed up
and put on the new machine, held against the backup, and the rows cut over in one transaction. At no moment may two
gateways run on one state: the old one is fenced, or its machine is off or gone, before the new one is given anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hermesops.errors import Hint, RefusedError
from hermesops.instances import refusals
from hermesops.instances.observation import Observation
from hermesops.instances.ports import Backups, Cells, Releases
from hermesops.instances.remote.power_control import PowerControl
from hermesops.instances.steps import new_machine, return_machine, start_verified, stop_and_backup
from hermesops.instances.steps.new_machine import (
    AwaitNext,
    DeployRelease,
    GrowCell,
    NextMachineState,
    OrderNext,
    RecordNext,
    StartNext,
)
from hermesops.instances.steps.return_machine import Forget, Retire, ShrinkCell
from hermesops.instances.steps.stop_and_backup import BackUp, Fence
from hermesops.instances.workflows.suspend import MarkForDeletion, StopMachine
from hermesops.justavps.wire import MachineStatus
from hermesops.model.backup import Backup
from hermesops.model.cell import Placement
from hermesops.model.ids import InstanceId, MachineId
from hermesops.model.instance import Instance, InstanceStatus
from hermesops.model.operation import Done, Refused
from hermesops.model.release import ReleaseId
from hermesops.model.spare import Purpose, Spare
from hermesops.model.state import State
from hermesops.operations.kinds import RelocateIntent
from hermesops.registry import Registry


@dataclass(frozen=True)
class Prepare:
    """Make the new machine the instance's, its gateway fenced; ``request`` as in ``Personalise``."""

    machine_id: MachineId
    request: str | None = None


@dataclass(frozen=True)
class RestoreBackup:
    """Put a backup's state on the new machine."""

    machine_id: MachineId
    snapshot: str


@dataclass(frozen=True)
class CutOver:
    """Write that the instance is on the new machine, and that the old one is its former."""


NextStep = MarkForDeletion | new_machine.Step | Prepare | RestoreBackup
Step = NextStep | stop_and_backup.Step | StopMachine | CutOver | start_verified.Step | return_machine.Step


@dataclass(frozen=True)
class RelocationState:
    """What relocating observes.

    Attributes:
        state: What is on that machine, while its gateway is stopped.
        release: The release that the agent runs; ``None`` where it came with an image and is in no store.
        backup: Made of the old machine for this very operation.
        source: The backup that is put on the new machine; ``None`` while there is none.
        former: The machine it was on when this was asked for, once it is on another and while there is a row of it.
    """

    observation: Observation
    state: State | None = None
    release: ReleaseId | None = None
    next: NextMachineState | None = None
    backup: Backup | None = None
    source: Backup | None = None
    wanted: bool = True
    former: Spare | None = None
    former_in_stack: bool = False


def decide(seen: RelocationState, intent: RelocateIntent, *, payload_digest: str) -> Step | Done | Refused:
    """The next step towards the instance's agent on its new machine."""
    instance = seen.observation.instance
    if instance.status is InstanceStatus.TERMINATED:
        return Refused(refusals.terminated(instance))
    if instance.machine_name != intent.origin:
        return _after(seen, intent, payload_digest)
    if intent.snapshot and seen.wanted and seen.observation.existing_machine is None:
        return MarkForDeletion()  # it is gone: none is to be made in its place
    return new_machine.next_step(seen.next, seen.release) or _stopped(seen, intent) or _handed_over(seen)


def _stopped(seen: RelocationState, intent: RelocateIntent) -> stop_and_backup.Step | StopMachine | Refused | None:
    if not intent.snapshot:
        return stop_and_backup.next_step(seen.observation, seen.backup)
    machine = seen.observation.existing_machine
    if machine is None or machine.status is MachineStatus.STOPPED:
        return None
    if machine.status is MachineStatus.READY and seen.observation.own_node:
        # What is there is copied too: who restores yesterday's may want today's after all.
        return stop_and_backup.next_step(seen.observation, seen.backup)
    return StopMachine(machine.id)  # it does not answer, and must not come back with its gateway


def _handed_over(seen: RelocationState) -> Prepare | RestoreBackup | AwaitNext | CutOver | Refused:
    instance, there = seen.observation.instance, seen.next
    if there is None or there.machine is None or there.node is None:
        raise ValueError("asked before the new machine answers")
    if seen.source is None:
        return Refused(_no_backup(instance))
    if there.node.instance_id not in (None, instance.id):
        return Refused(refusals.other_instance(instance, there.node.instance_id))
    if there.node.instance_id is None or there.node.epoch <= instance.epoch or not there.node.fenced:
        return Prepare(there.machine.id, there.node.request)
    if there.state is None:
        return AwaitNext(there.machine.id)
    if seen.source.state.differences(there.state):
        return RestoreBackup(there.machine.id, seen.source.id)
    return CutOver()


def _after(seen: RelocationState, intent: RelocateIntent, payload_digest: str) -> Step | Done | Refused:
    instance = seen.observation.instance
    if seen.source is None:
        return Refused(_no_backup(instance))
    was = seen.source.state
    step = start_verified.next_step(seen.observation, payload_digest=payload_digest, was=was, state=seen.state)
    if step is not None:
        return step
    former = seen.former
    if former is not None and not (former.wanted and intent.keeps_former):
        return return_machine.next_step(former, exists=seen.former_in_stack)
    kept = f"; {intent.origin} is kept for a while, its gateway stopped" if former is not None else ""
    return Done(f"the agent of {instance.title} is on {instance.machine_name} with {was}{kept}")


def _no_backup(instance: Instance) -> RefusedError:
    return RefusedError(
        f"{instance.title} has no backup that could be put on a new machine",
        hint=Hint(("backup", "list", instance.title)),
    )


_WORDS: Mapping[type, str] = {
    **new_machine.WORDS,
    MarkForDeletion: "giving up machine {here}, which is gone",
    StopMachine: "switching machine {here} off",
    Prepare: "handing machine {next} to {user}",
    RestoreBackup: "putting the backup on machine {next}",
    CutOver: "changing {user} over to {next}",
    Retire: "giving the former machine back",
    ShrinkCell: "destroying the former machine",
    Forget: "forgetting the former machine",
}


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
        client: Machines, nodes and gateways, under the lease that the rows are cut over with: after a lost
            lease nothing is cut over.
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
        return decide(seen, self.request, payload_digest=digest)

    def describe(self, step: Step, seen: RelocationState) -> str:
        """The step in a few words."""
        instance = seen.observation.instance
        if isinstance(step, Fence | BackUp):
            return stop_and_backup.describe(step, instance)
        words = _WORDS.get(type(step))
        if words is None:
            return start_verified.describe(step, instance)  # type: ignore[arg-type] # all others stand above
        to = seen.next.spare.name if seen.next else ""
        return words.format(user=instance.title, here=instance.machine_name, next=to)

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
            case Retire() | ShrinkCell() | Forget():
                if seen.former is None:
                    raise ValueError("asked when there is no former machine")
                await return_machine.do(step, seen.former, registry=self.registry, cells=self.cells, why=self.why)
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
                await new_machine.grow_cell(self.cells, spare.cell, spare.name)
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


def _next_of(seen: RelocationState) -> tuple[Spare, Instance]:
    """The machine that was ordered, and the instance as it will be on it."""
    if seen.next is None:
        raise ValueError("asked before there is a next machine")
    return seen.next.spare, successor(seen.observation.instance, seen.next.spare)
