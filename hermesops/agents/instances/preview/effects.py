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
from hermesops.agents.instances.workflows.reboot import Attempt, RebootMachine, RebootState
from hermesops.agents.instances.workflows.relocate import RelocationState
from hermesops.agents.instances.workflows.resize import ResizeState
from hermesops.agents.instances.workflows.restart import RestartGateway, RestartState
from hermesops.agents.instances.workflows.resume import ResumeState
from hermesops.agents.instances.workflows.schedule_termination import ScheduleTerminationState, StartGracePeriod
from hermesops.agents.instances.workflows.suspend import StopMachine, SuspendState
from hermesops.agents.instances.workflows.terminate import TerminationState
from hermesops.model.fleet.health import Answer, GatewayHealth, NodeState
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.fleet.unassigned_machine import MachineRole, UnassignedMachine, UnassignedStatus
from hermesops.model.ids import MachineId, MachineName
from hermesops.model.recovery.backup import Backup
from hermesops.model.recovery.state import State
from hermesops.store.operations.intent import Intent
from hermesops.store.operations.kinds.agents import RelocateIntent, ResizeIntent, ScheduleTerminationIntent
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
    | RestartState
    | RebootState
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

    def after(self, step: object, state: Any) -> Any:  # noqa: ANN401 - the state of any workflow, as its observe returns it
        """Return the state that a workflow would observe after a step; a step without effect returns it unchanged."""
        match state:
            case Observation():
                return self._provisioned(step, state)
            case RelocationState():
                return self._relocated(step, state)
            case RestoreState():
                return self._restored(step, state)
            case SuspendState() | TerminationState() | ScheduleTerminationState():
                return self._ended(step, self._observed(step, state))
            case ResizeState():
                return self._resized(step, self._observed(step, state))
            case RestartState():
                return self._restarted(step, self._observed(step, state))
            case RebootState():
                return self._rebooted(step, self._observed(step, state))
            case _:
                return self._observed(step, state)

    def _observed(self, step: object, state: Any) -> Any:  # noqa: ANN401 - as after
        """The effect on machine, node, gateway, backup and state, alike in all workflows that have them."""
        state = replace(state, observation=self._on_machine(step, state.observation))
        match step:
            case Fence() if hasattr(state, "state"):
                return replace(state, state=_UNKNOWN_STATE)
            case StartMachine() | AwaitMachine() if isinstance(state, ResumeState):
                return replace(state, state=state.backup.state if state.backup else _UNKNOWN_STATE)
            case BackUp():
                return replace(state, backup=self._backup(state.observation.instance, getattr(state, "state", None)))
        return state

    def _on_machine(self, step: object, observation: Observation) -> Observation:
        machine, node, instance = observation.machine, observation.node, observation.instance
        match step:
            case StartMachine() | AwaitMachine() if machine:
                return self._up(observation, machine)
            case Fence():
                return replace(observation, node=node and replace(node, fenced=True), gateway=GatewayHealth.REFUSED)
            case Release() if node:
                # With the model token from before, the agent cannot work.
                is_current = node.digest == self.digest(instance)
                health = GatewayHealth.OK if is_current else GatewayHealth.DEGRADED
                return replace(observation, node=replace(node, fenced=False), gateway=health)
            case StopMachine() if machine:
                return replace(
                    observation, machine=replace(machine, status=MachineStatus.STOPPED), node=None, gateway=None
                )
            case Personalise():
                return replace(observation, node=self._handed(instance, node), gateway=GatewayHealth.OK)
            case AwaitGateway():
                return replace(observation, gateway=GatewayHealth.OK)
            case MarkRunning():
                return replace(observation, instance=replace(instance, status=InstanceStatus.RUNNING))
        return observation

    def _up(self, observation: Observation, machine: MachineState) -> Observation:
        instance, node = observation.instance, observation.node
        is_new = instance.status is InstanceStatus.PROVISIONING
        if node is None:
            fenced = instance.status is InstanceStatus.SUSPENDED
            # A suspension revoked the model token that the machine has.
            digest = "" if fenced else self.digest(instance)
            own = NodeState(instance.id, instance.epoch, digest, "", fenced=fenced)
            node = NodeState(None, 0, "", "") if is_new else own
        runs = not node.fenced and not is_new
        return replace(
            observation,
            machine=replace(machine, status=MachineStatus.READY),
            node=node,
            gateway=GatewayHealth.OK if runs else observation.gateway,
        )

    def _handed(self, instance: Instance, node: NodeState | None, *, fenced: bool = False) -> NodeState:
        release = node.release if node else ""
        return NodeState(instance.id, instance.epoch, self.digest(instance), release, fenced=fenced)

    def _backup(self, instance: Instance, state: State | None) -> Backup:
        return Backup("planned", instance.id, self.at, "", 0, 0, state or _UNKNOWN_STATE)

    def _provisioned(self, step: object, observation: Observation) -> Observation:
        match step:
            case new_machine.GrowCell():
                machine = MachineState(NEW_ID, MachineStatus.READY, self.server_type)
                return replace(observation, machine=machine, node=NodeState(None, 0, "", ""))
            case provision.RecordMachine(machine_id=machine_id):
                return replace(observation, instance=replace(observation.instance, machine_id=machine_id))
        return self._on_machine(step, observation)

    def _restarted(self, step: object, state: RestartState) -> RestartState:
        if not isinstance(step, RestartGateway):
            return state
        stopped = replace(state.observation, gateway=GatewayHealth.SILENT)
        return replace(state, observation=stopped, invocation="planned")

    def _rebooted(self, step: object, state: RebootState) -> RebootState:
        alive, machine = replace(state.answers, toolbox=Answer.YES), state.observation.machine
        match step:
            case RebootMachine() if machine:
                return replace(
                    state, observation=self._booting(state, machine), answers=alive, attempt=Attempt.REBOOTING
                )
            case StartMachine() if machine:
                return replace(
                    state, observation=self._booting(state, machine), answers=alive, attempt=Attempt.STARTING
                )
            case AwaitMachine():
                return replace(state, answers=alive)
        return state

    def _booting(self, state: RebootState, machine: MachineState) -> Observation:
        """A machine that answers again, whose gateway starts."""
        return replace(self._up(state.observation, machine), gateway=GatewayHealth.SILENT)

    def _ended(self, step: object, state: Any) -> Any:  # noqa: ANN401 - as after
        observation = state.observation
        match step:
            case ProveBackup():
                proved = {
                    name: replace(backup, checked_at=self.at)
                    for name in ("backup", "newest")
                    if (backup := getattr(state, name)) is not None
                }
                return replace(state, **proved)
            case suspend.MarkForDeletion():
                return replace(state, wanted=False)
            case Fence() if isinstance(state, TerminationState):
                return replace(state, fenced=True)
            case suspend.ShrinkCell():
                return replace(state, observation=Observation(observation.instance, None), in_stack=False)
            case suspend.MarkSuspended():
                return _with_status(state, InstanceStatus.SUSPENDED)
            case StartGracePeriod() if isinstance(self.intent, ScheduleTerminationIntent):
                ending = replace(observation.instance, grace_until=self.intent.until)
                return _with_status(
                    replace(state, observation=replace(observation, instance=ending)), InstanceStatus.SUSPENDED
                )
            case terminate.MarkTerminated():
                return _with_status(state, InstanceStatus.TERMINATED)
        return state

    def _resized(self, step: object, state: ResizeState) -> ResizeState:
        if not isinstance(self.intent, ResizeIntent):
            return state
        size, observation = self.intent.after, state.observation
        match step:
            case resize.ChangePlan():
                changed = replace(observation, instance=replace(observation.instance, plan=size.plan))
                return replace(state, observation=changed)
            case resize.ApplyCell() if observation.machine:
                machine = replace(observation.machine, server_type=size.server_type)
                return replace(state, observation=replace(observation, machine=machine))
        return state

    def _restored(self, step: object, state: RestoreState) -> RestoreState:
        observation, source = state.observation, state.source
        match step:
            case BackUp():
                return replace(state, before=self._backup(observation.instance, state.state))
            case restore.RestoreBackup():
                return replace(state, state=State(source.state.parts, restored=source.id))
            case restore.Record():  # it revokes the model token that the machine has
                without = observation.node and replace(observation.node, digest="")
                return replace(state, observation=replace(observation, node=without), is_recorded=True, state=None)
        return replace(state, observation=self._on_machine(step, observation))

    def _relocated(self, step: object, state: RelocationState) -> RelocationState:
        match step:
            case suspend.MarkForDeletion():
                return replace(state, wanted=False)
            case BackUp():
                backup = self._backup(state.observation.instance, state.state)
                restores = isinstance(self.intent, RelocateIntent) and self.intent.snapshot
                return replace(state, backup=backup, source=state.source if restores else backup)
            case relocate.CutOver() if state.replacement:
                return self._cut_over(state, state.replacement)
            case return_machine.Retire() if state.previous:
                return replace(state, previous=replace(state.previous, wanted=False))
            case return_machine.ShrinkCell():
                return replace(state, previous_in_stack=False)
            case return_machine.Forget():
                return replace(state, previous=None)
        replacement = self._replacement(step, state)
        if replacement is not state.replacement:
            return replace(state, replacement=replacement)
        changed: RelocationState = self._observed(step, state)
        return changed

    def _replacement(self, step: object, state: RelocationState) -> ReplacementState | None:
        there, intent = state.replacement, self.intent
        if isinstance(step, new_machine.OrderReplacement) and isinstance(intent, RelocateIntent):
            return ReplacementState(_ordered(state.observation.instance, intent, self.at))
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
                own = self._handed(relocate.successor(state.observation.instance, row), node, fenced=True)
                return replace(there, node=own, state=State({}, restored=""))
            case relocate.RestoreBackup() if state.source:
                return replace(there, state=State(state.source.state.parts, restored=state.source.id))
        return there

    def _cut_over(self, state: RelocationState, there: ReplacementState) -> RelocationState:
        before = state.observation
        previous = replace(
            there.row,
            name=before.instance.machine_name,
            role=MachineRole.PREVIOUS,
            cell=before.instance.cell,
            plan=before.instance.plan,
            server_type=before.machine.server_type if before.machine else "",
            wanted=state.wanted,
        )
        return replace(
            state,
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


def _with_status(state: Any, status: InstanceStatus) -> Any:  # noqa: ANN401 - as after
    observation = state.observation
    return replace(state, observation=replace(observation, instance=replace(observation.instance, status=status)))
