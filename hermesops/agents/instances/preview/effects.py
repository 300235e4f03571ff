"""Expected effect of each step on an observation, if it succeeds. Pure.

Workflows decide the order of steps; a preview asks them again after each effect.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from hermesops.agents.instances.observation import MachineState, Observation
from hermesops.agents.instances.steps import new_machine, return_machine
from hermesops.agents.instances.steps.machine_table import AwaitMachine, StartMachine
from hermesops.agents.instances.steps.new_machine import ReplacementState
from hermesops.agents.instances.steps.personalise import AwaitGateway, MarkRunning, Personalise
from hermesops.agents.instances.steps.start_verified import Release
from hermesops.agents.instances.steps.stop_and_backup import BackUp, Fence, ProveBackup
from hermesops.agents.instances.workflows import provision, relocate, resize, suspend, terminate
from hermesops.agents.instances.workflows.copies import restore
from hermesops.agents.instances.workflows.copies.restore import RestoreState
from hermesops.agents.instances.workflows.relocate import RelocationState
from hermesops.agents.instances.workflows.resize import ResizeState
from hermesops.agents.instances.workflows.resume import ResumeState
from hermesops.agents.instances.workflows.schedule_termination import ScheduleTerminationState, StartGracePeriod
from hermesops.agents.instances.workflows.suspend import StopMachine, SuspendState
from hermesops.agents.instances.workflows.terminate import TerminationState
from hermesops.model.fleet.health import GatewayHealth, NodeState
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.fleet.unassigned_machine import MachineRole, UnassignedMachine, UnassignedStatus
from hermesops.model.ids import MachineId, MachineName
from hermesops.model.recovery.backup import Backup
from hermesops.model.recovery.state import State
from hermesops.store.operations.intent import Intent
from hermesops.store.operations.kinds import RelocateIntent, ResizeIntent, ScheduleTerminationIntent
from hermesops.vendor.justavps.wire import MachineStatus

NEW_MACHINE = MachineName("NEW")
"""Name of a machine that is not ordered yet."""

NEW_ID = MachineId("new")
_UNKNOWN_STATE = State({})
"""State of a machine that nobody has read yet; equal to itself only."""

SeenState = (
    Observation
    | SuspendState
    | ResumeState
    | ResizeState
    | RelocationState
    | ScheduleTerminationState
    | TerminationState
    | RestoreState
)


@dataclass(frozen=True)
class Effects:
    """Effects of the steps of one operation.

    Attributes:
        digest: Digest of the payload that an instance's node should have.
        server_type: Server type of a first machine.
        at: Time of backups and test restores that are still to be made.
    """

    intent: Intent
    digest: Callable[[Instance], str]
    at: datetime
    server_type: str = ""

    def after(self, step: object, seen: Any) -> Any:  # noqa: ANN401 - the state of any workflow, as its observe returns it
        """The observation after a step."""
        match seen:
            case Observation():
                return self._provisioned(step, seen)
            case RelocationState():
                return self._relocated(step, seen)
            case RestoreState():
                return self._restored(step, seen)
            case SuspendState() | TerminationState() | ScheduleTerminationState():
                return self._ended(step, self._observed(step, seen))
            case ResizeState():
                return self._resized(step, self._observed(step, seen))
            case _:
                return self._observed(step, seen)

    def _observed(self, step: object, seen: Any) -> Any:  # noqa: ANN401 - as after
        """The effect on machine, node, gateway, backup and state, alike in all workflows that have them."""
        seen = replace(seen, observation=self._on_machine(step, seen.observation))
        match step:
            case Fence() if hasattr(seen, "state"):
                return replace(seen, state=_UNKNOWN_STATE)
            case StartMachine() | AwaitMachine() if isinstance(seen, ResumeState):
                return replace(seen, state=seen.backup.state if seen.backup else _UNKNOWN_STATE)
            case BackUp():
                return replace(seen, backup=self._backup(seen.observation.instance, getattr(seen, "state", None)))
        return seen

    def _on_machine(self, step: object, seen: Observation) -> Observation:
        machine, node, instance = seen.machine, seen.node, seen.instance
        match step:
            case StartMachine() | AwaitMachine() if machine:
                return self._up(seen, machine)
            case Fence():
                return replace(seen, node=node and replace(node, fenced=True), gateway=GatewayHealth.REFUSED)
            case Release() if node:
                # With the model token from before, the agent cannot work.
                is_current = node.digest == self.digest(instance)
                health = GatewayHealth.OK if is_current else GatewayHealth.DEGRADED
                return replace(seen, node=replace(node, fenced=False), gateway=health)
            case StopMachine() if machine:
                return replace(seen, machine=replace(machine, status=MachineStatus.STOPPED), node=None, gateway=None)
            case Personalise():
                return replace(seen, node=self._handed(instance, node), gateway=GatewayHealth.OK)
            case AwaitGateway():
                return replace(seen, gateway=GatewayHealth.OK)
            case MarkRunning():
                return replace(seen, instance=replace(instance, status=InstanceStatus.RUNNING))
        return seen

    def _up(self, seen: Observation, machine: MachineState) -> Observation:
        instance, node = seen.instance, seen.node
        is_new = instance.status is InstanceStatus.PROVISIONING
        if node is None:
            fenced = instance.status is InstanceStatus.SUSPENDED
            # A suspension revoked the model token that the machine has.
            digest = "" if fenced else self.digest(instance)
            own = NodeState(instance.id, instance.epoch, digest, "", fenced=fenced)
            node = NodeState(None, 0, "", "") if is_new else own
        runs = not node.fenced and not is_new
        return replace(
            seen,
            machine=replace(machine, status=MachineStatus.READY),
            node=node,
            gateway=GatewayHealth.OK if runs else seen.gateway,
        )

    def _handed(self, instance: Instance, node: NodeState | None, *, fenced: bool = False) -> NodeState:
        release = node.release if node else ""
        return NodeState(instance.id, instance.epoch, self.digest(instance), release, fenced=fenced)

    def _backup(self, instance: Instance, state: State | None) -> Backup:
        return Backup("planned", instance.id, self.at, "", 0, 0, state or _UNKNOWN_STATE)

    def _provisioned(self, step: object, seen: Observation) -> Observation:
        match step:
            case new_machine.GrowCell():
                machine = MachineState(NEW_ID, MachineStatus.READY, self.server_type)
                return replace(seen, machine=machine, node=NodeState(None, 0, "", ""))
            case provision.RecordMachine(machine_id=machine_id):
                return replace(seen, instance=replace(seen.instance, machine_id=machine_id))
        return self._on_machine(step, seen)

    def _ended(self, step: object, seen: Any) -> Any:  # noqa: ANN401 - as after
        observation = seen.observation
        match step:
            case ProveBackup():
                proved = {
                    name: replace(backup, checked_at=self.at)
                    for name in ("backup", "newest")
                    if (backup := getattr(seen, name)) is not None
                }
                return replace(seen, **proved)
            case suspend.MarkForDeletion():
                return replace(seen, wanted=False)
            case Fence() if isinstance(seen, TerminationState):
                return replace(seen, fenced=True)
            case suspend.ShrinkCell():
                return replace(seen, observation=Observation(observation.instance, None), in_stack=False)
            case suspend.MarkSuspended():
                return _with_status(seen, InstanceStatus.SUSPENDED)
            case StartGracePeriod() if isinstance(self.intent, ScheduleTerminationIntent):
                ending = replace(observation.instance, grace_until=self.intent.until)
                return _with_status(
                    replace(seen, observation=replace(observation, instance=ending)), InstanceStatus.SUSPENDED
                )
            case terminate.MarkTerminated():
                return _with_status(seen, InstanceStatus.TERMINATED)
        return seen

    def _resized(self, step: object, seen: ResizeState) -> ResizeState:
        if not isinstance(self.intent, ResizeIntent):
            return seen
        size, observation = self.intent.after, seen.observation
        match step:
            case resize.ChangePlan():
                changed = replace(observation, instance=replace(observation.instance, plan=size.plan))
                return replace(seen, observation=changed)
            case resize.ApplyCell() if observation.machine:
                machine = replace(observation.machine, server_type=size.server_type)
                return replace(seen, observation=replace(observation, machine=machine))
        return seen

    def _restored(self, step: object, seen: RestoreState) -> RestoreState:
        observation, source = seen.observation, seen.source
        match step:
            case BackUp():
                return replace(seen, before=self._backup(observation.instance, seen.state))
            case restore.RestoreBackup():
                return replace(seen, state=State(source.state.parts, restored=source.id))
            case restore.Record():  # it revokes the model token that the machine has
                without = observation.node and replace(observation.node, digest="")
                return replace(seen, observation=replace(observation, node=without), is_recorded=True, state=None)
        return replace(seen, observation=self._on_machine(step, observation))

    def _relocated(self, step: object, seen: RelocationState) -> RelocationState:
        match step:
            case suspend.MarkForDeletion():
                return replace(seen, wanted=False)
            case BackUp():
                backup = self._backup(seen.observation.instance, seen.state)
                restores = isinstance(self.intent, RelocateIntent) and self.intent.snapshot
                return replace(seen, backup=backup, source=seen.source if restores else backup)
            case relocate.CutOver() if seen.replacement:
                return self._cut_over(seen, seen.replacement)
            case return_machine.Retire() if seen.previous:
                return replace(seen, previous=replace(seen.previous, wanted=False))
            case return_machine.ShrinkCell():
                return replace(seen, previous_in_stack=False)
            case return_machine.Forget():
                return replace(seen, previous=None)
        replacement = self._replacement(step, seen)
        if replacement is not seen.replacement:
            return replace(seen, replacement=replacement)
        changed: RelocationState = self._observed(step, seen)
        return changed

    def _replacement(self, step: object, seen: RelocationState) -> ReplacementState | None:
        there, intent = seen.replacement, self.intent
        if isinstance(step, new_machine.OrderReplacement) and isinstance(intent, RelocateIntent):
            return ReplacementState(_ordered(seen.observation.instance, intent, self.at))
        if there is None:
            return None
        row, machine, node = there.row, there.machine, there.node
        match step:
            case new_machine.GrowCell():
                fresh = MachineState(NEW_ID, MachineStatus.READY, row.server_type)
                return replace(there, machine=fresh, node=NodeState(None, 0, "", ""))
            case new_machine.RecordReplacement(machine_id=machine_id):
                return replace(there, row=replace(row, machine_id=machine_id))
            case new_machine.StartReplacement() | new_machine.AwaitReplacement() if machine:
                up = replace(machine, status=MachineStatus.READY)
                return replace(there, machine=up, node=node or NodeState(None, 0, "", ""))
            case new_machine.DeployRelease(release=release):
                return replace(there, node=node and replace(node, release=release, switching=False))
            case relocate.Prepare():
                own = self._handed(relocate.successor(seen.observation.instance, row), node, fenced=True)
                return replace(there, node=own, state=State({}, restored=""))
            case relocate.RestoreBackup() if seen.source:
                return replace(there, state=State(seen.source.state.parts, restored=seen.source.id))
        return there

    def _cut_over(self, seen: RelocationState, there: ReplacementState) -> RelocationState:
        before = seen.observation
        previous = replace(
            there.row,
            name=before.instance.machine_name,
            role=MachineRole.PREVIOUS,
            cell=before.instance.cell,
            plan=before.instance.plan,
            server_type=before.machine.server_type if before.machine else "",
            wanted=seen.wanted,
        )
        return replace(
            seen,
            observation=Observation(
                relocate.successor(before.instance, there.row),
                there.machine,
                there.node and replace(there.node, digest=""),  # its model token was revoked
                GatewayHealth.REFUSED,
            ),
            state=there.state,
            replacement=None,
            previous=previous,
            previous_in_stack=before.existing_machine is not None,
        )


def _ordered(instance: Instance, intent: RelocateIntent, at: datetime) -> UnassignedMachine:
    return UnassignedMachine(
        name=NEW_MACHINE,
        role=MachineRole.REPLACEMENT,
        instance_id=instance.id,
        cell=intent.cell,
        plan=intent.plan,
        server_type=intent.server_type,
        region=intent.region,
        image_id=intent.image_id,
        machine_id=None,
        wanted=True,
        status=UnassignedStatus.PREPARING,
        epoch=0,
        created_at=at,
    )


def _with_status(seen: Any, status: InstanceStatus) -> Any:  # noqa: ANN401 - as after
    observation = seen.observation
    return replace(seen, observation=replace(observation, instance=replace(observation.instance, status=status)))
