"""Move an instance to another machine: to resize or move it, to restore a backup, or because its machine is gone.

The new machine is prepared while the old one serves. Then the old gateway is stopped, its state is backed up, restored
on the new machine and compared, and the rows are cut over in one transaction. Two gateways must never run on one
state: the old one is fenced, or its machine is off or gone, before the new one receives anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hermesops.agents.cells.stack.stacks import CellStacks
from hermesops.agents.instances import refusals
from hermesops.agents.instances.observation import Observation
from hermesops.agents.instances.releases.transfer import ReleaseTransfer
from hermesops.agents.instances.remote.power_control import PowerControl
from hermesops.agents.instances.steps import new_machine, return_machine, start_verified, stop_and_backup
from hermesops.agents.instances.steps.new_machine import (
    AwaitReplacement,
    DeployRelease,
    GrowCell,
    OrderReplacement,
    RecordReplacement,
    ReplacementState,
    StartReplacement,
)
from hermesops.agents.instances.steps.ports import Backups
from hermesops.agents.instances.steps.return_machine import Forget, Retire, ShrinkCell
from hermesops.agents.instances.steps.stop_and_backup import BackUp, Fence
from hermesops.agents.instances.workflows.suspend import MarkForDeletion, StopMachine
from hermesops.errors import Hint, RefusedError
from hermesops.model.fleet.cell import Placement
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.fleet.unassigned_machine import MachineRole, UnassignedMachine
from hermesops.model.ids import InstanceId, MachineId
from hermesops.model.operation import Done, Refused
from hermesops.model.recovery.backup import Backup
from hermesops.model.recovery.state import State
from hermesops.model.rollout.release import ReleaseId
from hermesops.store.operations.kinds.agents import RelocateIntent
from hermesops.store.registry import Registry
from hermesops.vendor.justavps.wire import MachineStatus


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
    """Write that the instance is on the new machine, and that the old one is its previous."""


NextStep = MarkForDeletion | new_machine.Step | Prepare | RestoreBackup
Step = NextStep | stop_and_backup.Step | StopMachine | CutOver | start_verified.Step | return_machine.Step


@dataclass(frozen=True)
class RelocationState:
    """The instance, its old and new machine, and the backup between them.

    Attributes:
        state: What is on that machine, while its gateway is stopped.
        release: The release that the agent runs; ``None`` where it is in no store.
        backup: The backup of the old machine for this operation.
        source: The backup that is put on the new machine; ``None`` while there is none.
        previous: The machine it was on when this was asked for, once it is on another and while there is a row of it.
    """

    observation: Observation
    state: State | None = None
    release: ReleaseId | None = None
    replacement: ReplacementState | None = None
    backup: Backup | None = None
    source: Backup | None = None
    wanted: bool = True
    previous: UnassignedMachine | None = None
    previous_in_stack: bool = False


def decide(state: RelocationState, intent: RelocateIntent, *, payload_digest: str) -> Step | Done | Refused:
    """The next step towards the instance's agent on its new machine."""
    instance = state.observation.instance
    if instance.status is InstanceStatus.TERMINATED:
        return Refused(refusals.terminated(instance))
    if instance.machine_name != intent.origin:
        return _after(state, intent, payload_digest)
    if intent.snapshot and state.wanted and state.observation.existing_machine is None:
        return MarkForDeletion()  # it is gone: none is to be made in its place
    return new_machine.next_step(state.replacement, state.release) or _stopped(state, intent) or _handed_over(state)


def _stopped(state: RelocationState, intent: RelocateIntent) -> stop_and_backup.Step | StopMachine | Refused | None:
    if not intent.snapshot:
        return stop_and_backup.next_step(state.observation, state.backup)
    machine = state.observation.existing_machine
    if machine is None or machine.status is MachineStatus.STOPPED:
        return None
    if machine.status is MachineStatus.READY and state.observation.own_node:
        # Back up the present state too: the operator may need it after restoring an older one.
        return stop_and_backup.next_step(state.observation, state.backup)
    return StopMachine(machine.id)  # it does not answer, and must not come back with its gateway


def _handed_over(state: RelocationState) -> Prepare | RestoreBackup | AwaitReplacement | CutOver | Refused:
    instance, there = state.observation.instance, state.replacement
    if there is None or there.machine is None or there.node is None:
        raise ValueError("asked before the new machine answers")
    if state.source is None:
        return Refused(_no_backup(instance))
    if there.node.instance_id not in (None, instance.id):
        return Refused(refusals.other_instance(instance, there.node.instance_id))
    if there.node.instance_id is None or there.node.epoch <= instance.epoch or not there.node.fenced:
        return Prepare(there.machine.id, there.node.request)
    if there.state is None:
        return AwaitReplacement(there.machine.id)
    if not there.state.is_of(state.source.id, state.source.state):
        return RestoreBackup(there.machine.id, state.source.id)
    return CutOver()


def _after(state: RelocationState, intent: RelocateIntent, payload_digest: str) -> Step | Done | Refused:
    instance = state.observation.instance
    if state.source is None:
        return Refused(_no_backup(instance))
    was = state.source.state
    step = start_verified.next_step(state.observation, payload_digest=payload_digest, was=was, state=state.state)
    if step is not None:
        return step
    previous = state.previous
    if previous is not None and not (previous.wanted and intent.keeps_previous):
        return return_machine.next_step(previous, exists=state.previous_in_stack)
    remark = f"; {intent.origin} is kept for a while, its gateway stopped" if previous is not None else ""
    return Done(f"the agent of {instance.title} is on {instance.machine_name} with {was}{remark}")


def _no_backup(instance: Instance) -> RefusedError:
    return RefusedError(
        f"{instance.title} has no backup that could be put on a new machine",
        hint=Hint(("backup", "list", instance.title)),
    )


_WORDS: Mapping[type, str] = {
    **new_machine.WORDS,
    MarkForDeletion: "marking machine {here}, which is gone, for removal",
    StopMachine: "switching machine {here} off",
    Prepare: "assigning machine {replacement} to {user}",
    RestoreBackup: "putting the backup on machine {replacement}",
    CutOver: "changing {user} over to {replacement}",
    Retire: "marking the previous machine for removal",
    ShrinkCell: "destroying the previous machine",
    Forget: "forgetting the previous machine",
}


def successor(instance: Instance, row: UnassignedMachine) -> Instance:
    """The instance as it will be once it is on that machine. Pure."""
    return replace(
        instance,
        machine_name=row.name,
        machine_id=row.machine_id,
        cell=row.cell,
        plan=row.plan,
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
    cells: CellStacks
    releases: ReleaseTransfer

    async def observe(self) -> RelocationState:
        """Look at the instance, its machine, the next and the previous one, and its backups."""
        observation = await self.client.observe(self.instance_id)
        backup = self.backups.made(self.instance_id, self.why)
        chosen = self.backups.get(self.instance_id, self.request.snapshot) if self.request.snapshot else backup
        previous = self.registry.unassigned.find(self.request.origin)
        release = observation.own_node.release if observation.own_node else ""
        return RelocationState(
            observation,
            state=await stop_and_backup.stopped_state(observation, self.client),
            release=await self.releases.of(self.instance_id, release),
            replacement=await self._replacement(observation.instance),
            backup=backup,
            source=chosen,
            wanted=self.registry.instances.is_machine_wanted(self.instance_id),
            previous=previous,
            previous_in_stack=previous is not None and await self.cells.holds(previous.cell, previous.name),
        )

    async def _replacement(self, instance: Instance) -> ReplacementState | None:
        ordered = self.registry.unassigned.list(role=MachineRole.REPLACEMENT, instance_id=instance.id)
        row = next((row for row in ordered if row.wanted), None)
        if row is None:
            return None
        observation = await self.client.observe_as(successor(instance, row))
        return ReplacementState(
            row, observation.machine, observation.node, await stop_and_backup.stopped_state(observation, self.client)
        )

    def decide(self, state: RelocationState) -> Step | Done | Refused:
        """The next step for what was seen."""
        digest = self.client.payload_digest(state.observation.instance)
        return decide(state, self.request, payload_digest=digest)

    def describe(self, step: Step, state: RelocationState) -> str:
        """The step in a few words."""
        instance = state.observation.instance
        if isinstance(step, Fence | BackUp):
            return stop_and_backup.describe(step, instance)
        words = _WORDS.get(type(step))
        if words is None:
            return start_verified.describe(step, instance)  # type: ignore[arg-type] # all others stand above
        to = state.replacement.row.name if state.replacement else ""
        return words.format(user=instance.title, here=instance.machine_name, replacement=to)

    async def do(self, step: Step, state: RelocationState) -> None:
        """Do one step; harmless when it was done before."""
        instance = state.observation.instance
        match step:
            case MarkForDeletion():
                self.registry.instances.leave_machine(instance.id, why=self.why)
            case OrderReplacement():
                self._order_replacement(instance)
            case StopMachine(machine_id=machine_id):
                await self.client.stop_machine(instance, machine_id)
            case Retire() | ShrinkCell() | Forget():
                if state.previous is None:
                    raise ValueError("asked when there is no previous machine")
                await return_machine.do(step, state.previous, registry=self.registry, cells=self.cells, why=self.why)
            case Prepare() | RestoreBackup() | CutOver():
                await self._hand_over(step, state)
            case GrowCell() | RecordReplacement() | StartReplacement() | AwaitReplacement() | DeployRelease():
                await self._make_ready(step, state)
            case Fence() | BackUp():
                await stop_and_backup.do(step, instance, client=self.client, backups=self.backups, why=self.why)
            case _:
                await start_verified.do(step, instance, client=self.client, registry=self.registry)

    async def _make_ready(
        self,
        step: GrowCell | RecordReplacement | StartReplacement | AwaitReplacement | DeployRelease,
        state: RelocationState,
    ) -> None:
        row, there = _replacement_of(state)
        match step:
            case GrowCell():
                await new_machine.grow_cell(self.cells, row.cell, row.name)
            case RecordReplacement(machine_id=machine_id):
                self.registry.unassigned.set_machine(row.name, machine_id, why=self.why)
            case StartReplacement(machine_id=machine_id):
                await self.client.start_machine(machine_id)
                await self.client.await_machine(there, machine_id)
            case AwaitReplacement(machine_id=machine_id):
                await self.client.await_machine(there, machine_id)
            case DeployRelease(machine_id=machine_id, release=release):
                await self.releases.deploy(machine_id, release)

    async def _hand_over(self, step: Prepare | RestoreBackup | CutOver, state: RelocationState) -> None:
        row, there = _replacement_of(state)
        match step:
            case Prepare(machine_id=machine_id, request=request):
                await self.client.prepare(there, machine_id, request)
            case RestoreBackup(machine_id=machine_id, snapshot=snapshot):
                await self.backups.restore(there, machine_id, self.backups.get(there.id, snapshot))
            case CutOver():
                self.registry.assignments.cut_over(there.id, row.name, lease=self.client.lease, why=self.why)

    def _order_replacement(self, instance: Instance) -> None:
        request = self.request
        place = Placement(request.cell, request.region, request.only_plan)
        self.registry.unassigned.place(
            MachineRole.REPLACEMENT,
            plan=request.plan,
            server_type=request.server_type,
            image_id=request.image_id,
            choose=lambda _: place,
            instance_id=instance.id,
            why=self.why,
        )


def _replacement_of(state: RelocationState) -> tuple[UnassignedMachine, Instance]:
    """The machine that was ordered, and the instance as it will be on it."""
    if state.replacement is None:
        raise ValueError("asked before there is a next machine")
    return state.replacement.row, successor(state.observation.instance, state.replacement.row)
